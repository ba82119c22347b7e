// Rollouts for the tests of report/: a batch of 2 prompts x 2 completions, and a folder.
#pragma once

#include <unistd.h>

#include <limits>
#include <string>

#include "base/files/file.h"
#include "base/json.h"
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

// The first completion as a dialogue: two calls, of which one failed, an answer, and a last call that nobody read.
inline train::RolloutFacts dialogues(std::int64_t step) {
  const auto call = [](const char* name, const base::Json& arguments) {
    return base::Json{{"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  };
  train::RolloutFacts out = rollouts(step);
  out.completions.resize(1);
  train::CompletionFacts& one = out.completions[0];
  one.completion = "all of it as one text";
  one.messages = {{{"role", "assistant"},
                   {"content", ""},
                   {"reasoning_content", "Add.\nThen look."},
                   {"tool_calls", {call("add", {{"a", 2}}), call("look", "not an object")}}},
                  {{"role", "tool"}, {"name", "add"}, {"content", "5"}},
                  {{"role", "tool"}, {"name", "look"}, {"content", "{'error': 'gone'}"}},
                  {{"role", "assistant"},
                   {"content", "So 5, or more."},
                   {"tool_calls", base::Json::array({call("add", {{"a", 3}})})}}};
  one.calls = {{.turn = 0, .name = "add"},
               {.turn = 0, .name = "look", .failed = true},
               {.turn = 1, .name = "add", .is_unread = true, .unread = "too long"}};
  one.spans = base::Json::array();
  one.spans.push_back({"<call>", true});
  one.spans.push_back({"<result>", false});
  one.spans.push_back({"So 5, or more.<call>", true});
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
