// Whole GRPO runs on the tiny Llama: native rewards, resume in the middle of a generation batch, replay of
// what a run dumped, evaluation, faults of rewards.
#include "train/opening/open_run.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>
#include <set>

#include "adapters/peft_files.h"
#include "base/error.h"
#include "base/json.h"
#include "base/process/instruction_level.h"
#include "base/strings/code_points.h"
#include "base/strings/pattern.h"
#include "config/parse.h"
#include "model/files/weight_source.h"
#include "train/batches/run_data.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace grpo_run_test {

namespace fs = base::fs;

class Watcher final : public RunListener {
 public:
  void on_start(const StartFacts& facts) override { notes = facts.notes; }
  void on_step(const StepFacts& facts, std::int64_t) override {
    steps.push_back(facts);
    if (facts.step == stop_after) stop = true;
  }
  void on_log(const LogRecord& record) override { records.push_back(record); }
  void on_rollout(const RolloutFacts& facts) override { rollouts.push_back(facts); }
  std::vector<std::string> notes;
  std::vector<StepFacts> steps;
  std::vector<LogRecord> records;
  std::vector<RolloutFacts> rollouts;
  std::int64_t stop_after = 0;
  std::atomic<bool> stop = false;
};

double value_of(const std::vector<NamedValue>& values, const std::string& name) {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// Steps whose groups were not all dead; the ratio_gap of each is at most `most`.
int steps_with_gap(const Watcher& run, double most) {
  int known = 0;
  for (const StepFacts& step : run.steps) {
    const double gap = value_of(step.metrics, "ratio_gap");
    if (std::isnan(gap)) continue;
    known += 1;
    EXPECT_LE(gap, most);
  }
  return known;
}

class GrpoRunTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  config::Plan plan(const std::string& name, const std::vector<std::string>& more = {},
                    config::Method method = config::Method::kGrpo) {
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
                                      "4",
                                      "--gradient_accumulation_steps",
                                      "2",
                                      "--num_generations",
                                      "4",
                                      "--max_completion_length",
                                      "6",
                                      "--learning_rate",
                                      "1e-2",
                                      "--logging_steps",
                                      "1",
                                      "--lora_target_modules",
                                      "all-linear",
                                      "--output_dir",
                                      (root_ / name).string()};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(method, words);
  }
  std::unique_ptr<Watcher> go(const std::string& name, const std::vector<std::string>& more = {},
                              std::int64_t stop_after = 0, config::Method method = config::Method::kGrpo) {
    auto watcher = std::make_unique<Watcher>();
    watcher->stop_after = stop_after;
    begin_run(*open_run(plan(name, more, method), *watcher), *watcher, watcher->stop);
    return watcher;
  }
  std::string file(const std::string& name, std::string_view what) {
    return base::read_text(root_ / name / what);
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_grpo_" + std::to_string(getpid()));
};

// Every eighth token ends a completion: the tiny model would draw its one end token too rarely.
std::string many_stops() {
  base::Json ids = base::Json::array();
  for (int id = 2; id < 384; id += 8) ids.push_back(id);
  return base::dump_json({{"eos_token_id", ids}});
}

const std::vector<std::string> kLength = {"--reward_funcs", "length(target=6)", "--generation_kwargs",
                                          many_stops()};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(GrpoRunTest, LearnsWhatIsRewardedAndTheSamplerIsTheTrainer) {
  const auto run =
      go("run", with(kLength, {"--max_steps", "80", "--learning_rate", "1e-3", "--lr_scheduler_type",
                               "constant", "--save_strategy", "no", "--per_device_train_batch_size", "32",
                               "--num_generations", "8"}));
  ASSERT_EQ(run->steps.size(), 80U);
  double before = 0, after = 0;
  for (std::size_t i = 0; i < 30; ++i) {
    before += value_of(run->steps[i].metrics, "reward") / 30;
    after += value_of(run->steps[50 + i].metrics, "reward") / 30;
  }
  EXPECT_GT(after, before + 0.05);
  EXPECT_GT(steps_with_gap(*run, 1e-4), 10);
}

// 12 prompts, 5 a step: the last two of a pass are left out, as in TRL's repeat_iterable_dataset.
TEST_F(GrpoRunTest, StreamedPromptsAreThePromptsInOrder) {
  for (const config::Method method : {config::Method::kGrpo, config::Method::kRloo}) {
    const std::string of = method == config::Method::kGrpo ? "grpo" : "rloo";
    const std::vector<std::string> words =
        with(kLength, {"--max_steps", "5", "--per_device_train_batch_size", "10"});
    const std::vector<std::string> streams = with(words, {"--dataset_streaming", "true"});
    const auto straight = go(of + "_streamed", streams, 0, method);
    go(of + "_ordered", with(words, {"--shuffle_dataset", "false"}), 0, method);
    go(of + "_shuffled", words, 0, method);
    const auto weights = [&](const std::string& name) { return file(of + name, kAdapterWeightsFile); };
    EXPECT_EQ(weights("_streamed"), weights("_ordered")) << of;
    EXPECT_NE(weights("_shuffled"), weights("_ordered")) << of << ": the comparison would miss the order";
    EXPECT_EQ(straight->rollouts.at(4).completions.front().prompt,
              straight->rollouts.at(0).completions.front().prompt);
    // As TRL 1.16 logs them for these prompts as an IterableDataset.
    const std::vector<double> epochs = {0.2, 0.4, 1.2, 1.4, 2.2};
    ASSERT_GE(straight->records.size(), epochs.size());
    for (std::size_t i = 0; i < epochs.size(); ++i) EXPECT_DOUBLE_EQ(straight->records[i].epoch, epochs[i]);
    go(of + "_stopped", streams, 3, method);
    go(of + "_stopped", with(streams, {"--resume_from_checkpoint", "true"}), 0, method);
    EXPECT_EQ(weights("_stopped"), weights("_streamed")) << of;
  }
}

// vllm_structured_outputs_regex: the sampler is bound, the trainer's log-probabilities are the model's own.
TEST_F(GrpoRunTest, CompletionsAreOfTheFormThatIsAskedFor) {
  const auto run = go("run", {"--reward_funcs", "length(target=6)", "--vllm_structured_outputs_regex",
                              "[0-9]{2}( or [a-c])?", "--max_completion_length", "16"});
  ASSERT_EQ(run->rollouts.size(), 4U);
  const base::Pattern form("[0-9]{2}( or [a-c])?");
  std::set<std::string> different;
  for (const RolloutFacts& rollout : run->rollouts) {
    for (const CompletionFacts& one : rollout.completions) {
      long steps = base::Pattern::kMaxSteps;
      EXPECT_FALSE(one.truncated) << one.completion;
      EXPECT_TRUE(form.full_match(base::to_code_points(one.completion), steps)) << one.completion;
      different.insert(one.completion);
    }
  }
  EXPECT_GT(different.size(), 5U);
  for (const StepFacts& step : run->steps) {
    const double gap = value_of(step.metrics, "ratio_gap");
    EXPECT_TRUE(std::isnan(gap) || gap < 1e-4) << gap;
  }
}

// Rows of the embedding and of the tied head that are trained are sampled with.
TEST_F(GrpoRunTest, TheSamplerIsTheTrainerWithTrainedTokensBitForBit) {
  if (base::instruction_level() < base::InstructionLevel::kAvx2) {
    GTEST_SKIP() << "libtorch's GEMM promises no bits; this machine has no avx2";
  }
  const auto run = go("run", with(kLength, {"--max_steps", "12", "--dtype", "bfloat16", "--bf16", "true",
                                            "--lr_scheduler_type", "constant", "--save_strategy", "no",
                                            "--per_device_train_batch_size", "32", "--num_generations", "8",
                                            "--trainable_token_indices", "[10, 90, 224, 15, 25]"}));
  EXPECT_GT(steps_with_gap(*run, 0), 5);
  const auto moved = [&](std::int64_t id) {
    const auto source = model::open_weights(fs::path(HONE_FIXTURES) / "parity" / "tiny_llama");
    const adapters::StoredAdapter trained = adapters::read_adapter(root_ / "run", source->config());
    const at::Tensor base = source->read("model.embed_tokens.weight", at::kBFloat16).to(at::kFloat);
    return (trained.token_rows[0] - base[id]).abs().max().item<double>();
  };
  EXPECT_GT(moved(10), 1e-2);
}

// The sampler reads the fused layer, the trainer the one under autograd: near each other, and not to the bit.
TEST_F(GrpoRunTest, TheSamplerHasWhatIsTrainedInFull) {
  const auto run = go("run", with(kLength, {"--max_steps",
                                            "12",
                                            "--dtype",
                                            "float32",
                                            "--bf16",
                                            "false",
                                            "--lr_scheduler_type",
                                            "constant",
                                            "--save_strategy",
                                            "no",
                                            "--per_device_train_batch_size",
                                            "32",
                                            "--num_generations",
                                            "8",
                                            "--lora_modules_to_save",
                                            "lm_head",
                                            "embed_tokens",
                                            "norm",
                                            "--learning_rate",
                                            "1e-2"}));
  EXPECT_GT(steps_with_gap(*run, 1e-3), 5);
  const auto source = model::open_weights(fs::path(HONE_FIXTURES) / "parity" / "tiny_llama");
  const adapters::StoredAdapter trained = adapters::read_adapter(root_ / "run", source->config());
  ASSERT_EQ(trained.whole_names.front(), "model.embed_tokens.weight");
  const at::Tensor base = source->read("model.embed_tokens.weight", at::kFloat);
  EXPECT_GT((trained.whole.front() - base).abs().max().item<double>(), 1e-2);
}

TEST_F(GrpoRunTest, ARunThatIsResumedInTheMiddleOfAGenerationBatchEndsTheSame) {
  const std::vector<std::string> off =
      with(kLength, {"--steps_per_generation", "8", "--num_iterations", "2", "--max_steps", "7"});
  go("whole", off);
  go("parts", off, 3);
  EXPECT_TRUE(fs::exists(root_ / "parts" / "checkpoint-3" / "rollouts.json"));
  const auto second = go("parts", with(off, {"--resume_from_checkpoint", "true"}));
  EXPECT_EQ(second->rollouts.size(), 0U);  // the batch of the checkpoint goes on
  EXPECT_EQ(file("whole", kAdapterWeightsFile), file("parts", kAdapterWeightsFile));
}

// A reward that fails once: at the `call`-th call of the step after `step` steps.
class FailsOnce final : public rewards::Reward {
 public:
  FailsOnce(std::unique_ptr<rewards::Reward> inner, std::int64_t step, int call)
      : inner_(std::move(inner)), step_(step), call_(call) {}
  const std::string& name() const override { return inner_->name(); }
  rewards::Scores score(const rewards::Request& request) override {
    if (request.trainer_state.at("global_step") == step_ && ++calls_ == call_)
      throw rewards::RewardUnavailable(
          {.where = "the reward", .found = "no answer", .fix = "start its server"});
    return inner_->score(request);
  }

 private:
  std::unique_ptr<rewards::Reward> inner_;
  std::int64_t step_;
  int call_, calls_ = 0;
};

// The second generation batch of two; the second of two that one step takes.
TEST_F(GrpoRunTest, ARewardThatEndsTheRunLosesNothing) {
  struct Case {
    std::vector<std::string> options;
    std::int64_t step;
    int call;
  };
  const std::vector<Case> cases = {
      {{"--steps_per_generation", "4", "--num_iterations", "2"}, 4, 2},
      {{"--gradient_accumulation_steps", "4", "--steps_per_generation", "2"}, 2, 3}};
  for (const Case& one : cases) {
    const std::vector<std::string> options =
        with(with(kLength, one.options), {"--max_steps", "6", "--save_strategy", "no", "--dump_rollouts"});
    const std::string at = std::to_string(one.step), whole = "whole" + at, parts = "parts" + at;
    go(whole, options);
    Watcher watcher;
    auto run = open_run(plan(parts, options), watcher);
    auto& rewards = std::get<SampledData>(run->data).rewards;
    rewards[0] = std::make_unique<FailsOnce>(std::move(rewards[0]), one.step, one.call);
    try {
      begin_run(*run, watcher, watcher.stop);
      FAIL() << "it went on";
    } catch (const base::UserError& error) {
      EXPECT_NE(std::string(error.what()).find("start its server; step " + at + " was saved first"),
                std::string::npos)
          << error.what();
    }
    run.reset();  // its folder is another run's now
    EXPECT_EQ(checkpoint_steps(root_ / parts), std::vector<std::int64_t>{one.step});
    go(parts, with(options, {"--resume_from_checkpoint", "true"}));
    EXPECT_EQ(file(whole, kAdapterWeightsFile), file(parts, kAdapterWeightsFile));
    EXPECT_EQ(file(whole, kRolloutsFile), file(parts, kRolloutsFile));
    const auto history = [&](const std::string& name) {
      base::Json log = base::parse_json(file(name, kTrainerStateFile), name).at("log_history");
      log.erase(log.size() - 1);
      return log;
    };
    EXPECT_EQ(history(whole), history(parts)) << at;
  }
}

TEST_F(GrpoRunTest, ReplayingADumpGivesTheSameAdapter) {
  go("live", with(kLength, {"--dump_rollouts"}));
  go("again", {"--replay", (root_ / "live" / kRolloutsFile).string()});
  EXPECT_EQ(file("live", kAdapterWeightsFile), file("again", kAdapterWeightsFile));
}

TEST_F(GrpoRunTest, SharedAndRepeatedPromptsGiveTheSameGradients) {
  go("live", with(kLength, {"--dump_rollouts", "--max_steps", "1"}));
  const std::vector<std::string> replay = {"--replay", (root_ / "live" / kRolloutsFile).string(),
                                           "--max_steps", "1"};
  const auto shared = go("shared", replay);
  const auto repeated = go("repeated", with(replay, {"--share_prompt", "false"}));
  const auto plain = go("plain", with(replay, {"--layer_form", "plain"}));
  EXPECT_NEAR(shared->steps[0].grad_norm, repeated->steps[0].grad_norm, 1e-5 * repeated->steps[0].grad_norm);
  EXPECT_NEAR(shared->steps[0].loss, repeated->steps[0].loss, 1e-6);
  EXPECT_NEAR(shared->steps[0].grad_norm, plain->steps[0].grad_norm, 1e-5 * plain->steps[0].grad_norm);
}

TEST_F(GrpoRunTest, EvaluationSaysTheRewardOfHeldOutPrompts) {
  const fs::path data = fs::path(HONE_FIXTURES) / "parity" / "trl_grpo" / "prompts.jsonl";
  const auto run =
      go("run", with(kLength, {"--eval_dataset", data.string(), "--eval_strategy", "steps", "--eval_steps",
                               "2", "--per_device_eval_batch_size", "4", "--num_generations_eval", "2"}));
  int evaluations = 0;
  for (const LogRecord& record : run->records) {
    const double reward = value_of(record.values, "eval_reward");
    if (std::isnan(reward)) continue;
    evaluations += 1;
    EXPECT_FALSE(std::isnan(value_of(record.values, "eval_rewards/length/mean")));
  }
  EXPECT_EQ(evaluations, 2);
}

TEST_F(GrpoRunTest, RlooRuns) {
  const auto run = go("run", with(kLength, {"--num_generations", "2"}), 0, config::Method::kRloo);
  EXPECT_EQ(run->steps.size(), 4U);
  EXPECT_GT(run->steps[0].grad_norm, 0);
  EXPECT_FALSE(std::isnan(value_of(run->steps[0].metrics, "kl")));
}

TEST_F(GrpoRunTest, ARewardThatNeverScoresStopsTheRun) {
  try {
    go("run", {"--reward_funcs", (fs::path(HONE_FIXTURES) / "rewards" / "faulty.py").string() + ":silent"});
    FAIL() << "it went on";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("not one in 3 batches"), std::string::npos) << error.what();
  }
}

TEST_F(GrpoRunTest, AColumnThatTheDataLackIsNamedBeforeAnythingIsWritten) {
  try {
    go("run", {"--reward_funcs", "exact_match(column=answr)"});
    FAIL() << "it ran";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("answr"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(fs::exists(root_ / "run"));
}

TEST_F(GrpoRunTest, APromptLongerThanTheContextIsNamed) {
  try {
    go("run", with(kLength, {"--max_completion_length", "100000"}));
    FAIL() << "it ran";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("max_completion_length"), std::string::npos) << error.what();
  }
}

// The parts of a generation batch add up to the metric of the step that trains on it, where each completion counts.
TEST_F(GrpoRunTest, ABatchSaysWhereItsKlIs) {
  const auto run =
      go("depth", {"--reward_funcs", R"(regex(pattern="[a-m]"))", "--beta", "0.05", "--max_completion_length",
                   "8", "--generation_kwargs", R"({"min_new_tokens": 8})"});
  ASSERT_EQ(run->rollouts.size(), run->steps.size());
  for (std::size_t i = 0; i < run->rollouts.size(); ++i) {
    const RolloutFacts& batch = run->rollouts[i];
    std::int64_t tokens = 0;
    for (const CompletionFacts& one : batch.completions) tokens += one.tokens;
    ASSERT_EQ(batch.kl.tokens, tokens);
    const double sum = std::accumulate(batch.kl.sums.begin(), batch.kl.sums.end(), 0.0);
    EXPECT_NEAR(sum / static_cast<double>(tokens), value_of(run->steps[i].metrics, "kl"), 1e-5) << i;
  }
  EXPECT_GT(value_of(run->steps.back().metrics, "kl"), 1e-4);
  EXPECT_EQ(go("none", {"--reward_funcs", "length(target=6)"})->rollouts.at(0).kl.tokens, 0);
}

}  // namespace grpo_run_test
}  // namespace hone::train
