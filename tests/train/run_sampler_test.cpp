// Completions beside the training: when they are sampled, what they are of, what eval_reward_funcs make of them, and that the run's
// bits are the same without them.
#include "train/loop/run_sampler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "config/parse.h"
#include "learn/mean_interval.h"
#include "rollout/generate.h"
#include "train/opening/generate_options.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace run_sampler_test {

namespace fs = base::fs;
using config::Method;
using Words = std::vector<std::string>;

struct Killed {};

class Watcher final : public RunListener {
 public:
  void on_start(const StartFacts& facts) override { start = facts; }
  void on_samples(const SampleFacts& facts) override { samples.push_back(facts); }
  void on_log(const LogRecord& record) override { records.push_back(record); }
  void on_rollout(const RolloutFacts& facts) override {
    if (!facts.warnings.empty()) warnings = facts.warnings;
  }
  void on_step(const StepFacts& facts, std::int64_t) override {
    if (facts.step == kill_after) throw Killed();
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> out;
    for (const SampleFacts& one : samples) out.push_back(one.step);
    return out;
  }
  // Of the newest record that has it.
  double value(const std::string& name) const {
    for (auto record = records.rbegin(); record != records.rend(); ++record) {
      for (const auto& [key, value] : record->values) {
        if (key == name) return value;
      }
    }
    return std::numeric_limits<double>::quiet_NaN();
  }
  StartFacts start;
  std::vector<SampleFacts> samples;
  std::vector<LogRecord> records;
  Words warnings;
  std::int64_t kill_after = 0;
  std::atomic<bool> stop = false;
};

class RunSamplerTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  fs::path fixture(const std::string& name) const { return fs::path(HONE_FIXTURES) / "parity" / name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(root_ / name) << text;
    return (root_ / name).string();
  }

  config::Plan plan(const std::string& name, Method method, const Words& more) {
    Words words = {"--model_name_or_path",
                   fixture("tiny_llama").string(),
                   "--use_peft",
                   "--bf16",
                   "false",
                   "--max_steps",
                   "6",
                   "--save_steps",
                   "2",
                   "--per_device_train_batch_size",
                   "2",
                   "--learning_rate",
                   "1e-2",
                   "--threads",
                   "1",
                   "--logging_steps",
                   "1",
                   "--lora_dropout",
                   "0.1",
                   "--sample_max_new_tokens",
                   "8",
                   "--output_dir",
                   (root_ / name).string()};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(method, words);
  }
  std::unique_ptr<Watcher> go(const std::string& name, Method method, const Words& more,
                              std::int64_t kill_after = 0) {
    auto watcher = std::make_unique<Watcher>();
    watcher->kill_after = kill_after;
    begin_run(*open_run(plan(name, method, more), *watcher), *watcher, watcher->stop);
    return watcher;
  }
  std::unique_ptr<Watcher> sft(const std::string& name, Words more, std::int64_t kill_after = 0) {
    const std::string rows = fixture("sft/prompt_completion.jsonl").string();
    more.insert(more.end(), {"--dataset_name", rows, "--eval_dataset", rows, "--eval_strategy", "steps",
                             "--eval_steps", "3"});
    return go(name, Method::kSft, more, kill_after);
  }
  std::string file(const std::string& run, std::string_view name) const {
    return base::read_text(root_ / run / std::string(name));
  }
  // The run's log without its last line, which holds times, times of evaluations, and what eval_reward_funcs add.
  base::Json history(const std::string& run) const {
    base::Json log = base::parse_json(file(run, kTrainerStateFile), run).at("log_history");
    log.erase(log.size() - 1);
    for (base::Json& entry : log) {
      base::Json kept = base::Json::object();
      for (const auto& [name, value] : entry.items()) {
        const bool timed = name.ends_with("_runtime") || name.ends_with("_per_second");
        const bool ours = name.ends_with("_greedy/mean") || name.find("exact_match") != std::string::npos;
        if (!timed && !ours && name.find("_greedy/") == std::string::npos) kept[name] = value;
      }
      entry = kept;
    }
    return log;
  }
  void expect_same_run(const std::string& one, const std::string& other) const {
    EXPECT_EQ(file(one, kAdapterWeightsFile), file(other, kAdapterWeightsFile));
    EXPECT_EQ(file(one + "/checkpoint-6", kOptimizerFile), file(other + "/checkpoint-6", kOptimizerFile));
    EXPECT_EQ(history(one), history(other));
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_run_sampler_" + std::to_string(getpid()));
};

TEST_F(RunSamplerTest, TheRunsBitsAreTheSameWithoutIt) {
  sft("without", {});
  const auto watcher = sft("with", {"--sample_prompts", "3", "--sample_steps", "1", "--eval_reward_funcs",
                                    "exact_match(column=completion)"});
  EXPECT_EQ(watcher->steps(), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  expect_same_run("without", "with");
}

TEST_F(RunSamplerTest, SamplesAtEvaluationsOrAtSteps) {
  EXPECT_EQ(sft("evaluations", {"--sample_prompts", "Add 7 and 12."})->steps(),
            (std::vector<std::int64_t>{0, 3, 6}));
  EXPECT_EQ(sft("steps", {"--sample_prompts", "Add 7 and 12.", "--sample_steps", "4"})->steps(),
            (std::vector<std::int64_t>{0, 4, 6}));
}

TEST_F(RunSamplerTest, AResumedRunSamplesWhatIsLeft) {
  const auto whole = sft("whole", {"--sample_prompts", "Add 7 and 12.", "--sample_steps", "1"});
  EXPECT_THROW(sft("parts", {"--sample_prompts", "Add 7 and 12.", "--sample_steps", "1"}, 5), Killed);
  const auto rest = sft("parts", {"--sample_prompts", "Add 7 and 12.", "--sample_steps", "1",
                                  "--resume_from_checkpoint", "true"});
  ASSERT_EQ(rest->steps(), (std::vector<std::int64_t>{5, 6})) << "of the checkpoint of step 4";
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(rest->samples[i].completions[0].completion, whole->samples[5 + i].completions[0].completion);
}

// What the trained adapter writes, decoded apart from the run.
TEST_F(RunSamplerTest, CompletionsAreGreedyByTheWeightsOfTheirStep) {
  const auto watcher = sft("run", {"--sample_prompts", "What is 43 + 21?", "--sample_steps", "6"});
  ASSERT_EQ(watcher->samples.size(), 2U);
  const CompletionFacts &before = watcher->samples[0].completions.at(0),
                        &after = watcher->samples[1].completions.at(0);
  EXPECT_EQ(before.prompt, "What is 43 + 21?");
  EXPECT_NE(before.completion, after.completion) << "the learning rate is high";
  const auto completed = [&](const Words& more) {
    Watcher quiet;
    Words words = {"--dataset_name", fixture("sft/prompt_completion.jsonl").string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto run = open_run(plan("other", Method::kSft, words), quiet);
    rollout::GenerateOptions options =
        generate_options_of(run->plan.policy, run->model->config(), run->text->tokenizer);
    options.sampler = {};
    options.max_new_tokens = 8;
    const auto ids = run->text->tokenizer.encode("What is 43 + 21?", true).ids;
    return run->text->tokenizer.decode(rollout::generate(*run->model, {ids}, options)[0].ids, true);
  };
  EXPECT_EQ(before.completion, completed({}));
  EXPECT_EQ(after.completion, completed({"--adapter_name_or_path", (root_ / "run").string()}));
}

TEST_F(RunSamplerTest, ScoresAreThoseOfTheCompletions) {
  const auto watcher = sft("scored", {"--sample_prompts", "1000", "--eval_reward_funcs",
                                      "regex(pattern=\"[0-9]\")", "length(target=9)"});
  const SampleFacts& last = watcher->samples.back();
  EXPECT_EQ(last.reward_names, (Words{"regex", "length"}));
  ASSERT_EQ(last.completions.size(), 40U);
  EXPECT_TRUE(watcher->samples.front().reward_names.empty()) << "nothing was evaluated before step 1";
  std::vector<double> matches, lengths;
  for (const CompletionFacts& one : last.completions) {
    ASSERT_EQ(one.rewards.size(), 2U);
    EXPECT_EQ(one.rewards[0], one.completion.find_first_of("0123456789") == std::string::npos ? 0 : 1)
        << one.completion;
    matches.push_back(one.rewards[0]);
    lengths.push_back(one.rewards[1]);
  }
  const learn::MeanInterval match = learn::mean_interval(matches), length = learn::mean_interval(lengths);
  EXPECT_GT(match.std, 0) << "some have a digit, and some have none";
  EXPECT_EQ(watcher->value("eval_rewards/regex/mean"), match.mean);
  EXPECT_EQ(watcher->value("eval_rewards/regex/std"), match.std);
  EXPECT_EQ(watcher->value("eval_rewards/regex/ci_low"), match.low);
  EXPECT_EQ(watcher->value("eval_rewards/regex/ci_high"), match.high);
  EXPECT_EQ(watcher->value("eval_rewards/length/mean"), length.mean);
  EXPECT_EQ(watcher->value("eval_rewards/length/ci_high"), length.high);
  EXPECT_FALSE(watcher->start.scored.empty());
}

TEST_F(RunSamplerTest, ATextIsATurnWhereTheRowsAreConversations) {
  const std::string rows = fixture("sft/messages.jsonl").string();
  const auto watcher = go("chat", Method::kSft,
                          {"--dataset_name", rows, "--sample_prompts", "Add 7 and 12.", "--max_steps", "1",
                           "--dataset_system_prompt", "Be brief."});
  ASSERT_EQ(watcher->steps(), (std::vector<std::int64_t>{0, 1}));
  const CompletionFacts& one = watcher->samples[0].completions.at(0);
  EXPECT_EQ(one.asked, "Add 7 and 12.");
  EXPECT_NE(one.prompt, one.asked) << "as the template renders it";
  EXPECT_NE(one.prompt.find("Be brief."), std::string::npos) << one.prompt;
}

TEST_F(RunSamplerTest, TheLastTurnIsTheAnswerToCompareWith) {
  const std::string rows = fixture("sft/messages.jsonl").string();
  const auto watcher =
      go("chat", Method::kSft,
         {"--dataset_name", rows, "--eval_dataset", rows, "--eval_strategy", "steps", "--eval_steps", "1",
          "--max_steps", "1", "--eval_reward_funcs", "exact_match(column=completion)", "--eval_reward_rows",
          "5", "--sample_prompts", "2"});
  EXPECT_FALSE(std::isnan(watcher->value("eval_rewards/exact_match/mean")));
  EXPECT_EQ(watcher->samples.back().completions.size(), 2U);
  EXPECT_EQ(watcher->samples.back().completions[0].asked, "What is 43 + 21?");
  EXPECT_NE(watcher->start.scored.find("5 rows"), std::string::npos) << watcher->start.scored;
}

TEST_F(RunSamplerTest, PairsAreSampledAtTheirPrompts) {
  for (const char* data : {"trl_dpo/explicit.jsonl", "trl_dpo/implicit.jsonl", "trl_dpo/chat.jsonl"}) {
    const std::string rows = fixture(data).string();
    const Words evaluated = {"--dataset_name",  rows,    "--eval_dataset", rows,
                             "--eval_strategy", "steps", "--eval_steps",   "3"};
    Words more = evaluated;
    more.insert(more.end(), {"--sample_prompts", "2", "--eval_reward_funcs", "exact_match(column=chosen)"});
    go("without", Method::kDpo, evaluated);
    const auto watcher = go("with", Method::kDpo, more);
    EXPECT_EQ(watcher->steps(), (std::vector<std::int64_t>{0, 3, 6})) << data;
    EXPECT_FALSE(std::isnan(watcher->value("eval_rewards/exact_match/ci_low"))) << data;
    EXPECT_FALSE(std::isnan(watcher->value("eval_rewards/margins"))) << data;
    expect_same_run("without", "with");
    fs::remove_all(root_ / "without");
    fs::remove_all(root_ / "with");
  }
}

TEST_F(RunSamplerTest, MarkedCompletionsAreSampledAtTheirPrompts) {
  const std::string rows = fixture("trl_kto/rows.jsonl").string();
  const Words evaluated = {"--dataset_name",  rows,    "--eval_dataset", rows,
                           "--eval_strategy", "steps", "--eval_steps",   "3"};
  Words more = evaluated;
  more.insert(more.end(), {"--sample_prompts", "2", "--eval_reward_funcs", "exact_match(column=completion)"});
  go("without", Method::kKto, evaluated);
  const auto watcher = go("with", Method::kKto, more);
  EXPECT_EQ(watcher->steps(), (std::vector<std::int64_t>{0, 3, 6}));
  EXPECT_FALSE(std::isnan(watcher->value("eval_rewards/exact_match/ci_low")));
  expect_same_run("without", "with");
}

TEST_F(RunSamplerTest, GrpoHasGreedyRewardsBesideItsOwn) {
  const std::string rows = fixture("trl_grpo/prompts.jsonl").string();
  const Words evaluated = {"--dataset_name",
                           rows,
                           "--eval_dataset",
                           rows,
                           "--eval_strategy",
                           "steps",
                           "--eval_steps",
                           "3",
                           "--per_device_train_batch_size",
                           "4",
                           "--num_generations",
                           "4",
                           "--per_device_eval_batch_size",
                           "4",
                           "--max_completion_length",
                           "6",
                           "--reward_funcs",
                           "length(target=4)"};
  Words more = evaluated;
  more.insert(more.end(), {"--sample_prompts", "2", "--eval_reward_funcs", "length(target=4)"});
  go("without", Method::kGrpo, evaluated);
  const auto watcher = go("with", Method::kGrpo, more);
  EXPECT_EQ(watcher->steps(), (std::vector<std::int64_t>{0, 3, 6}));
  EXPECT_FALSE(std::isnan(watcher->value("eval_rewards/length/mean")));
  EXPECT_FALSE(std::isnan(watcher->value("eval_rewards/length_greedy/mean")));
  EXPECT_FALSE(std::isnan(watcher->value("eval_rewards/length_greedy/ci_low")));
  EXPECT_EQ(watcher->samples.back().reward_names, Words{"length"});
  expect_same_run("without", "with");
}

TEST_F(RunSamplerTest, SeveralSetsHaveMetricsOfTheirOwn) {
  const std::string rows = fixture("sft/prompt_completion.jsonl").string();
  const auto watcher =
      go("sets", Method::kSft,
         {"--dataset_name", rows, "--eval_datasets", "{\"a\": \"" + rows + "\", \"b\": \"" + rows + "\"}",
          "--eval_strategy", "steps", "--eval_steps", "1", "--max_steps", "1", "--eval_reward_funcs",
          "length(target=4)", "--eval_reward_rows", "3"});
  EXPECT_FALSE(std::isnan(watcher->value("eval_a_rewards/length/mean")));
  EXPECT_EQ(watcher->value("eval_a_rewards/length/mean"), watcher->value("eval_b_rewards/length/mean"));
}

TEST_F(RunSamplerTest, WhatCannotBeSampledIsSaidBeforeTheWeights) {
  const auto error_of = [&](const Words& more) -> std::string {
    try {
      Watcher quiet;
      open_run(plan("refused", Method::kSft, more), quiet);
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::string text = fixture("sft/text.jsonl").string(),
                    rows = fixture("sft/prompt_completion.jsonl").string();
  EXPECT_NE(error_of({"--dataset_name", text, "--sample_prompts", "2"}).find("a row of only a text"),
            std::string::npos);
  const Words evaluated = {"--dataset_name", rows, "--eval_dataset", rows, "--eval_strategy", "steps"};
  const auto with = [&](const std::string& reward) {
    Words words = evaluated;
    words.insert(words.end(), {"--eval_reward_funcs", reward});
    return error_of(words);
  };
  EXPECT_NE(with("exact_match").find("[eval_reward_funcs exact_match] expected a column"), std::string::npos)
      << with("exact_match");
  EXPECT_NE(with("exact_mach").find("[eval_reward_funcs] expected a reward"), std::string::npos)
      << with("exact_mach");
  EXPECT_NE(error_of({"--dataset_name", rows, "--sample_prompts", "2", "--sample_max_new_tokens", "100000"})
                .find("room for sample_max_new_tokens"),
            std::string::npos);
  const std::string empty = write("empty.jsonl", "");
  EXPECT_NE(error_of({"--dataset_name", rows, "--sample_prompts", empty}), "");
}

TEST_F(RunSamplerTest, MemoryIsPlannedForTheKeysAndValues) {
  const std::string rows = fixture("sft/prompt_completion.jsonl").string();
  const auto planned = [&](const std::string& prompts, const std::string& tokens) {
    Watcher quiet;
    const auto run = open_run(
        plan("planned", Method::kSft,
             {"--dataset_name", rows, "--sample_prompts", prompts, "--sample_max_new_tokens", tokens}),
        quiet);
    const model::ModelConfig& config = run->model->config();
    const std::int64_t token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim *
                               std::int64_t{sizeof(float)};
    const std::int64_t together = std::min<std::int64_t>(std::stoll(prompts), 16);
    const std::int64_t bytes = run->sampler->bytes(*run->model);
    EXPECT_GE(bytes, together * std::stoll(tokens) * token) << "the new tokens of all that decode together";
    return bytes;
  };
  const std::int64_t one = planned("1", "100");
  EXPECT_GT(planned("1", "400"), 2 * one);
  EXPECT_GT(planned("16", "100"), 8 * one);
  EXPECT_LT(planned("40", "100"), 2 * planned("16", "100"))
      << "16 decode together, and the longest prompt counts";
}

}  // namespace run_sampler_test
}  // namespace hone::train
