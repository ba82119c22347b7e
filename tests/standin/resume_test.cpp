// Runs that stop and go on, on the stand-in and from one device to the other.
#include <gtest/gtest.h>
#include <unistd.h>

#include "standin/run_cases.h"
#include "standin/tiny_runs.h"
#include "train/saves/run_folder.h"

namespace hone::standin {
namespace resume_test {

namespace fs = base::fs;
using config::Method;

struct Row {
  std::string name;
  Method method = Method::kSft;
  std::string data;
  std::vector<std::string> words;
  bool full = false;
  std::int64_t stop_after = 2;  // of three steps
};

std::ostream& operator<<(std::ostream& out, const Row& one) {
  return out << one.name;
}

std::vector<Row> rows() {
  const std::string text = "sft/text.jsonl", prompts = "trl_grpo/prompts.jsonl";
  const std::vector<std::string> group = {"--reward_funcs",
                                          "length(target=6)",
                                          "--per_device_train_batch_size",
                                          "8",
                                          "--num_generations",
                                          "4",
                                          "--max_completion_length",
                                          "6"};
  const auto grpo = [&](std::vector<std::string> more) {
    more.insert(more.end(), group.begin(), group.end());
    return more;
  };
  return {
      {.name = "sft", .data = text, .words = {"--weight_decay", "0.1"}},
      {.name = "sft_8bit_states", .data = text, .words = {"--optim", "adamw_8bit", "--lora_r", "64"}},
      {.name = "sft_full_8bit_states", .data = text, .words = {"--optim", "adamw_8bit"}, .full = true},
      // Its four steps are of one generation batch, whose rollouts the checkpoint holds.
      {.name = "grpo_in_a_generation_batch",
       .method = Method::kGrpo,
       .data = prompts,
       .words = grpo({"--steps_per_generation", "4", "--num_iterations", "2"}),
       .stop_after = 1},
  };
}

class ResumeTest : public testing::TestWithParam<Row> {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  config::Plan plan(const std::string& device, const std::string& name, bool resume = false) const {
    const Row& row = GetParam();
    std::vector<std::string> words = options_of(
        {.name = row.name, .method = row.method, .data = row.data, .words = row.words, .full = row.full});
    words.insert(words.end(), {"--save_strategy", "steps", "--save_steps", "1"});
    if (resume) words.insert(words.end(), {"--resume_from_checkpoint", "true"});
    return tiny_plan(row.method, device, root_ / name, words);
  }
  // The run of `from` until it is stopped, which `to` ends.
  Outcome resumed(const std::string& from, const std::string& to) const {
    run_tiny(plan(from, "parts"), GetParam().stop_after);
    return run_tiny(plan(to, "parts", /*resume=*/true));
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_standin_resume_" + std::to_string(getpid()));
};

TEST_P(ResumeTest, StoppedAndResumedIsBitEqualOnTheDevice) {
  const Outcome whole = run_tiny(plan(kName, "whole"));
  EXPECT_EQ(resumed(kName, kName).weights, whole.weights);
}

TEST_P(ResumeTest, ACheckpointGoesFromDeviceToCpu) {
  const Outcome whole = run_tiny(plan("cpu", "whole"));
  expect_close_weights(whole, resumed(kName, "cpu"), "resumed on the CPU", 5e-3);
}

TEST_P(ResumeTest, ACheckpointGoesFromCpuToDevice) {
  const Outcome whole = run_tiny(plan("cpu", "whole"));
  expect_close_weights(whole, resumed("cpu", kName), "resumed on the device", 5e-3);
}

INSTANTIATE_TEST_SUITE_P(Runs, ResumeTest, testing::ValuesIn(rows()),
                         [](const auto& one) { return one.param.name; });

// What a run of the CPU has sampled trains an adapter on either device.
TEST(ReplayTest, RecordedRolloutsTrainTheSame) {
  const fs::path root = fs::temp_directory_path() / ("hone_standin_replay_" + std::to_string(getpid()));
  const auto run = [&](const std::string& device, const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> words =
        options_of({.name = name,
                    .method = Method::kGrpo,
                    .data = "trl_grpo/prompts.jsonl",
                    .words = {"--reward_funcs", "length(target=6)", "--per_device_train_batch_size", "8",
                              "--num_generations", "4", "--max_completion_length", "6"}});
    words.insert(words.end(), more.begin(), more.end());
    return run_tiny(tiny_plan(Method::kGrpo, device, root / name, words));
  };
  const Outcome live = run("cpu", "live", {"--dump_rollouts"});
  const std::string file = (root / "live" / train::kRolloutsFile).string();
  const Outcome cpu = run("cpu", "cpu", {"--replay", file}), here = run(kName, kName, {"--replay", file});
  expect_close(cpu, here, "replay");
  EXPECT_FALSE(here.completions.empty());
  EXPECT_EQ(here.completions, live.completions);
  fs::remove_all(root);
}

}  // namespace resume_test
}  // namespace hone::standin
