// GRPO runs with drafts, which change no bit, and with groups that are replaced.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <memory>

#include "adapters/peft_files.h"
#include "base/json.h"
#include "base/process/instruction_level.h"
#include "config/parse.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace sampled_runs_test {

namespace fs = base::fs;

class Watcher final : public RunListener {
 public:
  void on_step(const StepFacts& facts, std::int64_t) override {
    steps.push_back(facts);
    if (facts.step == stop_after) stop = true;
  }
  void on_log(const LogRecord& record) override { records.push_back(record); }
  void on_rollout(const RolloutFacts& facts) override { rollouts.push_back(facts); }
  std::vector<StepFacts> steps;
  std::vector<LogRecord> records;
  std::vector<RolloutFacts> rollouts;
  std::int64_t stop_after = 0;
  std::atomic<bool> stop = false;
};

double value_of(const std::vector<NamedValue>& values, const std::string& name) {
  for (const auto& [key, value] : values)
    if (key == name) return value;
  return std::numeric_limits<double>::quiet_NaN();
}

// Over all steps that have it.
double sum_of(const Watcher& run, const std::string& name) {
  double out = 0;
  for (const StepFacts& step : run.steps) {
    const double value = value_of(step.metrics, name);
    out += std::isnan(value) ? 0 : value;
  }
  return out;
}

class SampledRunsTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  config::Plan plan(const std::string& name, const std::vector<std::string>& more) {
    const fs::path fixtures = fs::path(HONE_FIXTURES) / "parity";
    std::vector<std::string> words = {"--model_name_or_path",
                                      (fixtures / "tiny_llama").string(),
                                      "--dataset_name",
                                      (fixtures / "trl_grpo" / "prompts.jsonl").string(),
                                      "--use_peft",
                                      "--bf16",
                                      "false",
                                      "--max_steps",
                                      "4",
                                      "--save_steps",
                                      "1",
                                      "--lora_dropout",
                                      "0",
                                      "--per_device_train_batch_size",
                                      "8",
                                      "--num_generations",
                                      "2",
                                      "--learning_rate",
                                      "1e-2",
                                      "--logging_steps",
                                      "1",
                                      "--reward_funcs",
                                      "length(target=6)",
                                      "--output_dir",
                                      (root_ / name).string()};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(config::Method::kGrpo, words);
  }
  std::unique_ptr<Watcher> go(const std::string& name, const std::vector<std::string>& more,
                              std::int64_t stop_after = 0) {
    auto watcher = std::make_unique<Watcher>();
    watcher->stop_after = stop_after;
    begin_run(*open_run(plan(name, more), *watcher), *watcher, watcher->stop);
    return watcher;
  }
  std::string file(const std::string& name, std::string_view what) {
    return base::read_text(root_ / name / what);
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_sampled_" + std::to_string(getpid()));
};

TEST_F(SampledRunsTest, DraftsChangeNoBitAndAreCounted) {
  // Nearly greedy, so that completions repeat themselves.
  const std::vector<std::string> words = {"--temperature", "0.02", "--max_completion_length", "60"};
  std::vector<std::string> drafts = words;
  drafts.insert(drafts.end(), {"--drafts", "auto"});
  const auto plain = go("plain", words), drafted = go("drafted", drafts);
  EXPECT_EQ(file("plain", kAdapterWeightsFile), file("drafted", kAdapterWeightsFile));
  ASSERT_EQ(plain->records.size(), drafted->records.size());
  double passes = 0, per_pass = 0;
  for (std::size_t i = 0; i < plain->records.size(); ++i) {
    EXPECT_TRUE(std::isnan(value_of(plain->records[i].performance, "spec/drafted")));
    if (i < plain->steps.size()) {
      EXPECT_EQ(plain->records[i].values, drafted->records[i].values);
    }
    const auto& performance = drafted->records[i].performance;
    if (performance.empty()) continue;  // of the end of training
    EXPECT_GE(value_of(performance, "spec/drafted"), value_of(performance, "spec/accepted"));
    EXPECT_FALSE(std::isnan(value_of(performance, "spec/seconds_saved")));
    passes += value_of(performance, "spec/passes");
    per_pass = std::max(per_pass, value_of(performance, "spec/accepted_per_pass"));
  }
  if (base::instruction_level() < base::InstructionLevel::kAvx2) return;
  EXPECT_GT(passes, 0);
  EXPECT_GT(per_pass, 0);
}

// The first batch again, whose completions are then guessed; and runs of several epochs, one of them stopped between.
TEST_F(SampledRunsTest, WhatARowsCompletionsWereIsGuessedInALaterEpoch) {
  const std::vector<std::string> words = {
      "--max_completion_length", "40", "--temperature", "1", "--max_steps", "7"};
  std::vector<std::string> drafts = words;
  drafts.insert(drafts.end(), {"--drafts", "auto"});
  go("plain", words);
  go("drafted", drafts);
  go("parts", drafts, 4);
  drafts.insert(drafts.end(), {"--resume_from_checkpoint", "true"});
  go("parts", drafts);
  EXPECT_EQ(file("plain", kAdapterWeightsFile), file("drafted", kAdapterWeightsFile));
  EXPECT_EQ(file("plain", kAdapterWeightsFile), file("parts", kAdapterWeightsFile));

  Watcher silent;
  const auto run = open_run(plan("opened", words), silent);
  const SampledData& data = run->data.sampled();
  rollout::GenerateOptions options = sampling_options(run->plan, run->model->config(), run->text->tokenizer);
  options.drafts = rollout::Drafts::kAlways;
  const std::vector<std::unique_ptr<rewards::Reward>> none;
  LiveRollouts source(options, *run->model, data.train_prompts, run->text->tokenizer, none);
  const RolloutRequest request{.generation = 1, .rows = {3, 0, 5}, .num_generations = 2};
  const SourcedRollouts first = source.make(request), second = source.make(request);
  const SourcedRollouts others = source.make({.generation = 2, .rows = {1, 2, 4}, .num_generations = 2});
  for (std::size_t i = 0; i < first.batch.samples.size(); ++i) {
    EXPECT_EQ(first.batch.samples[i].ids, second.batch.samples[i].ids);
    EXPECT_EQ(first.batch.samples[i].old_logprobs, second.batch.samples[i].old_logprobs);
  }
  if (base::instruction_level() < base::InstructionLevel::kAvx2) return;
  const double accepted = value_of(second.counts, "spec/accepted");
  EXPECT_GT(accepted, 100);
  EXPECT_GT(accepted, 2 * value_of(first.counts, "spec/accepted"));
  EXPECT_GT(accepted, 2 * value_of(others.counts, "spec/accepted")) << "of other rows";
}

// Two completions of two tokens often have the same reward.
TEST_F(SampledRunsTest, DeadGroupsAreReplacedAlsoByAResumedRun) {
  const std::vector<std::string> words = {"--max_completion_length", "3", "--generation_kwargs",
                                          base::dump_json({{"eos_token_id", {2, 12, 22, 32, 42, 52, 62}}})};
  std::vector<std::string> filters = words;
  filters.insert(filters.end(), {"--filter_groups", "true", "--max_num_gen_batches", "3"});
  const auto plain = go("plain", words), whole = go("whole", filters);
  EXPECT_GT(sum_of(*plain, "dead_groups"), 0);
  EXPECT_LT(sum_of(*whole, "dead_groups"), sum_of(*plain, "dead_groups"));
  EXPECT_GT(sum_of(*whole, "filtered_groups"), 0);
  EXPECT_GT(sum_of(*whole, "num_gen_batches"), 4);
  EXPECT_EQ(whole->rollouts.size(), 4U);
  EXPECT_NE(file("plain", kAdapterWeightsFile), file("whole", kAdapterWeightsFile));
  go("parts", filters, 2);
  filters.insert(filters.end(), {"--resume_from_checkpoint", "true"});
  go("parts", filters);
  EXPECT_EQ(file("whole", kAdapterWeightsFile), file("parts", kAdapterWeightsFile));
}

}  // namespace sampled_runs_test
}  // namespace hone::train
