// Rollouts for the tests of report/: a batch of 2 prompts x 2 completions, and a folder.
#pragma once

#include <unistd.h>

#include <limits>
#include <string>

#include "base/file.h"
#include "train/facts/step_facts.h"

namespace hone::report {

inline train::RolloutFacts rollouts(std::int64_t step) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  train::RolloutFacts out;
  out.step = step;
  out.reward_names = {"accuracy_reward", "format"};
  out.completions = {{.prompt = "2 + 3?", .completion = "5", .rewards = {1, none}, .advantage = 0.7071},
                     {.prompt = "2 + 3?",
                      .completion = "6\n\x1b[2J",
                      .truncated = true,
                      .rewards = {0, 0.5},
                      .advantage = -0.7071},
                     {.prompt = "4 + 4?", .completion = "8", .rewards = {1, 1}, .advantage = 0},
                     {.prompt = "4 + 4?", .completion = "8", .rewards = {1, 1}, .advantage = 0}};
  return out;
}

class TestFolder {
 public:
  explicit TestFolder(const std::string& name)
      : path_(base::fs::temp_directory_path() / ("hone_" + name + "_" + std::to_string(getpid()))) {
    base::fs::remove_all(path_);
    base::fs::create_directories(path_);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { base::fs::remove_all(path_); }
  const base::fs::path& path() const { return path_; }

 private:
  base::fs::path path_;
};

}  // namespace hone::report
