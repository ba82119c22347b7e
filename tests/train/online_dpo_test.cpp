// Online DPO from the outside: pairs and their scores, whole runs on the tiny Llama with rewards, a reward
// model and a judge, resume, replay of what a run dumped, evaluation, rehearsing.
#include "train/methods/online_dpo/online_pairs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "config/parse.h"
#include "train/loop/guard.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace online_dpo_test {

namespace fs = base::fs;

using namespace online_dpo;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

const fs::path kFixtures = fs::path(HONE_FIXTURES) / "parity";

// ---- pairs

RolloutBatch batch_of(const std::vector<std::vector<double>>& rewards) {
  RolloutBatch out{.reward_names = {"a", "b"}};
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (i % 2 == 0) out.prompts.push_back({.row = static_cast<std::int64_t>(i), .ids = {1, 2, 3, 4, 5}});
    out.samples.push_back({.prompt = i / 2,
                           .ids = std::vector<std::int32_t>(i + 1, static_cast<std::int32_t>(i)),
                           .truncated = i % 2 == 1,
                           .rewards = rewards[i]});
  }
  return out;
}

config::Plan pair_plan() {
  config::Plan plan;
  plan.method = config::Method::kOnlineDpo;
  plan.max_length = 100;
  plan.per_device_train_batch_size = 2;
  return plan;
}

double value_of(const std::vector<NamedValue>& values, const std::string& name) {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return kNone;
}

TEST(OnlinePairs, TheHigherScoreIsChosenAndOfATieTheFirst) {
  const RolloutBatch batch = batch_of({{1, 0}, {0, 2}, {kNone, 3}, {2, 1}, {kNone, kNone}, {0, 0}});
  config::Plan plan = pair_plan();
  const auto pairs = online_pairs(batch, plan, 100, "here");
  ASSERT_EQ(pairs.size(), 2U);  // two prompts, then one
  EXPECT_EQ(pairs[0][0].chosen, 1U);
  EXPECT_EQ(pairs[0][0].score_chosen, 2);
  EXPECT_EQ(data::view(pairs[0][0].record).sequence(data::Part::kChosen).scored.size(), 2U);
  EXPECT_TRUE(pairs[0][1].is_tie);
  EXPECT_EQ(pairs[0][1].chosen, 2U);
  EXPECT_FALSE(pairs[1][0].is_scored);
  EXPECT_EQ(trained_pairs(pairs[0], plan).size(), 2U);
  EXPECT_EQ(trained_pairs(pairs[1], plan).size(), 0U);
  const auto metrics = score_metrics(batch, pairs[0], plan);
  EXPECT_EQ(value_of(metrics, "objective/scores"), 9.0 / 4);
  EXPECT_EQ(value_of(metrics, "objective/scores_margin"), 0.5);
  EXPECT_EQ(value_of(metrics, "ties"), 0.5);
  EXPECT_EQ(value_of(metrics, "val/contain_eos_token"), 0.5);
  EXPECT_EQ(value_of(metrics, "rewards/a/mean"), 1);

  plan.policy.reward_weights = {4, 1};
  plan.online.skip_ties = true;
  plan.online.missing_eos_penalty = 1.5;  // sample 3 is cut: 8 + 1 - 1.5
  const auto weighed = online_pairs(batch, plan, 100, "here");
  EXPECT_EQ(weighed[0][0].chosen, 0U);
  EXPECT_EQ(weighed[0][1].score_chosen, 7.5);
  plan.policy.reward_weights = {1, 1};
  plan.online.missing_eos_penalty.reset();
  EXPECT_EQ(trained_pairs(online_pairs(batch, plan, 100, "here")[0], plan).size(), 1U);
}

TEST(OnlinePairs, APromptLosesItsBeginning) {
  config::Plan plan = pair_plan();
  plan.max_length = 6;
  const auto pairs = online_pairs(batch_of({{1, 0}, {0, 2}, {0, 0}, {0, 0}}), plan, 100, "here");
  const auto context = [&](std::size_t pair, data::Part part) {
    const auto tokens = data::view(pairs[0][pair].record).sequence(part).context;
    return std::vector<std::int32_t>(tokens.begin(), tokens.end());
  };
  EXPECT_EQ(context(0, data::Part::kChosen), (std::vector<std::int32_t>{2, 3, 4, 5}));  // beside 2 tokens
  EXPECT_EQ(context(1, data::Part::kRejected), (std::vector<std::int32_t>{4, 5}));      // beside 4
  EXPECT_TRUE(data::sides_of(data::view(pairs[0][0].record)).shares_context());
}

TEST(OnlinePairs, SlicesHoldWholePairs) {
  RolloutBatch batch = batch_of({{1, 0}, {0, 2}, {0, 0}, {0, 0}, {1, 1}, {0, 0}});
  batch.slices = {{4, 5}, {0, 1, 3, 2}};
  const auto pairs = online_pairs(batch, pair_plan(), 100, "here");
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0][0].chosen, 4U);
  EXPECT_EQ(pairs[1].size(), 2U);
  batch.slices = {{0, 2, 1}, {3, 4, 5}};
  EXPECT_THROW(online_pairs(batch, pair_plan(), 100, "here"), base::UserError);
  batch.slices = {};
  batch.samples.pop_back();
  EXPECT_THROW(online_pairs(batch, pair_plan(), 100, "here"), base::UserError);
}

// ---- runs

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

class OnlineDpoRun : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  config::Plan plan(const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--model_name_or_path",
                                      (kFixtures / "tiny_llama").string(),
                                      "--dataset_name",
                                      (kFixtures / "trl_grpo" / "prompts.jsonl").string(),
                                      "--use_peft",
                                      "--bf16",
                                      "false",
                                      "--threads",
                                      "1",
                                      "--max_steps",
                                      "4",
                                      "--save_steps",
                                      "1",
                                      "--per_device_train_batch_size",
                                      "2",
                                      "--gradient_accumulation_steps",
                                      "2",
                                      "--max_new_tokens",
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
    return config::parse_run(config::Method::kOnlineDpo, words);
  }
  std::unique_ptr<Watcher> go(const std::string& name, const std::vector<std::string>& more,
                              std::int64_t stop_after = 0) {
    auto watcher = std::make_unique<Watcher>();
    watcher->stop_after = stop_after;
    begin_run(*open_run(plan(name, more), *watcher), *watcher, watcher->stop);
    return watcher;
  }
  std::string adapter(const std::string& name) { return base::read_text(root_ / name / kAdapterWeightsFile); }

  fs::path root_ = fs::temp_directory_path() / ("hone_online_dpo_" + std::to_string(getpid()));
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

TEST_F(OnlineDpoRun, LearnsWhatIsRewardedAndTheSamplerIsTheTrainer) {
  const auto run = go(
      "run", with(kLength, {"--max_steps", "60", "--learning_rate", "2e-3", "--lr_scheduler_type", "constant",
                            "--save_strategy", "no", "--temperature", "1", "--per_device_train_batch_size",
                            "12", "--gradient_accumulation_steps", "1", "--skip_ties"}));
  ASSERT_EQ(run->steps.size(), 60U);
  double before = 0, after = 0;
  int gaps = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    before += value_of(run->steps[i].metrics, "objective/scores") / 20;
    after += value_of(run->steps[40 + i].metrics, "objective/scores") / 20;
  }
  for (const StepFacts& step : run->steps) {
    const double gap = value_of(step.metrics, "ratio_gap");
    if (std::isnan(gap)) continue;
    gaps += 1;
    EXPECT_LT(gap, 1e-4);
  }
  EXPECT_GT(after, before + 0.05);
  EXPECT_GT(gaps, 10);
}

TEST_F(OnlineDpoRun, AResumedRunEndsTheSame) {
  const std::vector<std::string> words = with(kLength, {"--dump_rollouts", "--missing_eos_penalty", "0.5"});
  go("whole", words);
  go("parts", words, 2);
  const auto second = go("parts", with(words, {"--resume_from_checkpoint", "true"}));
  EXPECT_EQ(second->rollouts.size(), 2U);
  EXPECT_EQ(adapter("whole"), adapter("parts"));
  EXPECT_EQ(base::read_text(root_ / "whole" / kRolloutsFile),
            base::read_text(root_ / "parts" / kRolloutsFile));
}

// 12 prompts, 5 a step: the third step of a pass has two.
TEST_F(OnlineDpoRun, StreamedPromptsAreThePromptsInOrder) {
  const std::vector<std::string> words = with(kLength, {"--max_steps", "5", "--per_device_train_batch_size",
                                                        "5", "--gradient_accumulation_steps", "1"});
  const std::vector<std::string> streams = with(words, {"--dataset_streaming", "true"});
  go("streamed", streams);
  go("ordered", with(words, {"--train_sampling_strategy", "sequential"}));
  go("shuffled", words);
  EXPECT_EQ(adapter("streamed"), adapter("ordered"));
  EXPECT_NE(adapter("shuffled"), adapter("ordered")) << "the comparison would miss the order";
  go("stopped", streams, 3);
  go("stopped", with(streams, {"--resume_from_checkpoint", "true"}));
  EXPECT_EQ(adapter("stopped"), adapter("streamed"));
}

TEST_F(OnlineDpoRun, ReplayingADumpGivesTheSameAdapter) {
  go("live", with(kLength, {"--dump_rollouts", "--loss_type", "ipo"}));
  go("again", {"--replay", (root_ / "live" / kRolloutsFile).string(), "--loss_type", "ipo"});
  EXPECT_EQ(adapter("live"), adapter("again"));
}

// The gradient of a step does not depend on how it is cut into micro-batches (TRL's grows with their number).
TEST_F(OnlineDpoRun, AccumulationIsAMean) {
  go("live", with(kLength, {"--dump_rollouts", "--max_steps", "1"}));
  const std::vector<std::string> replay = {"--replay", (root_ / "live" / kRolloutsFile).string(),
                                           "--max_steps", "1"};
  const auto parts =
      go("parts", with(replay, {"--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "4"}));
  const auto whole =
      go("whole", with(replay, {"--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "1"}));
  const auto plain = go("plain", with(replay, {"--layer_form", "plain"}));
  EXPECT_NEAR(parts->steps[0].grad_norm, whole->steps[0].grad_norm, 1e-5 * whole->steps[0].grad_norm);
  EXPECT_NEAR(parts->steps[0].loss, whole->steps[0].loss, 1e-6);
  EXPECT_NEAR(plain->steps[0].grad_norm, whole->steps[0].grad_norm, 1e-5 * whole->steps[0].grad_norm);
}

TEST_F(OnlineDpoRun, BetaFollowsTheEpochs) {
  const auto run =
      go("run", with(kLength, {"--beta", "0.5", "0.2", "--max_steps", "9"}));  // 3 steps an epoch
  for (std::size_t i = 0; i < run->steps.size(); ++i) {
    EXPECT_EQ(value_of(run->steps[i].metrics, "beta"), i < 3 ? 0.5 : 0.2) << i;
  }
}

TEST_F(OnlineDpoRun, AJudgeInThePlaceOfRewards) {
  const fs::path file = root_ / "judge.py";
  std::ofstream(file) << "def longer(prompts, completions):\n"
                         "    return [int(len(b) > len(a)) for a, b in completions]\n";
  const auto run = go("run", {"--judge", file.string() + ":longer", "--generation_kwargs", many_stops()});
  ASSERT_EQ(run->steps.size(), 4U);
  EXPECT_GT(run->steps[0].grad_norm, 0);
  EXPECT_TRUE(std::isnan(value_of(run->steps[0].metrics, "objective/scores")));
  EXPECT_FALSE(std::isnan(value_of(run->steps[0].metrics, "objective/kl")));
  for (const CompletionFacts& one : run->rollouts.at(0).completions) {
    EXPECT_EQ(one.advantage, one.rewards.at(0) == 1 ? 1 : -1);
  }
  EXPECT_EQ(run->rollouts[0].reward_names, std::vector<std::string>{"longer"});
}

TEST_F(OnlineDpoRun, EvaluationSaysTheScoreOfHeldOutPrompts) {
  const fs::path data = kFixtures / "trl_grpo" / "prompts.jsonl";
  const auto run = go("run", with(kLength, {"--eval_dataset", data.string(), "--eval_strategy", "steps",
                                            "--eval_steps", "2", "--per_device_eval_batch_size", "5"}));
  std::vector<double> scores;
  for (const LogRecord& record : run->records) {
    const double score = value_of(record.values, "eval_objective/scores");
    if (std::isnan(score)) continue;
    scores.push_back(score);
    EXPECT_FALSE(std::isnan(value_of(record.values, "eval_loss")));
    EXPECT_FALSE(std::isnan(value_of(record.values, "eval_rewards/margins")));
  }
  EXPECT_EQ(scores.size(), 2U);
}

TEST_F(OnlineDpoRun, PairsWithoutAScoreAreLeftOutAndEndARunOfThem) {
  const fs::path file = root_ / "rewards.py";
  std::ofstream(file) << "def some(completions, row, **_):\n"
                         "    return [None if r % 3 == 0 else len(c) for r, c in zip(row, completions)]\n"
                         "def none(completions, **_):\n    return [None] * len(completions)\n";
  const auto run = go("run", {"--reward_funcs", file.string() + ":some", "--max_steps", "2"});
  EXPECT_FALSE(run->rollouts[0].warnings.empty() && run->rollouts[1].warnings.empty());
  try {
    go("other", {"--reward_funcs", file.string() + ":none", "--max_steps", "5"});
    FAIL() << "it went on";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("not one in 3 batches"), std::string::npos) << error.what();
  }
}

class KlOfSteps final : public RunGuard {
 public:
  void on_backward(std::int64_t, const StepLoss& loss, const adapters::Adapter&) override {
    kls.push_back(loss.kl);
  }
  std::vector<KlByDepth> kls;
};

// A new adapter is its reference; the trained one is not, and every token that was drawn counts.
TEST_F(OnlineDpoRun, EachStepSaysWhereItsKlIs) {
  Watcher watcher;
  KlOfSteps guard;
  const auto run = open_run(plan("run", {"--reward_funcs", "length(target=6)", "--max_new_tokens", "8",
                                         "--generation_kwargs", R"({"min_new_tokens": 8})"}),
                            watcher);
  begin_run(*run, watcher, watcher.stop, &guard);
  ASSERT_EQ(guard.kls.size(), 4);
  for (std::size_t step = 0; step < guard.kls.size(); ++step) {
    std::int64_t tokens = 0;
    for (const CompletionFacts& one : watcher.rollouts.at(step).completions)
      tokens += one.tokens < 8 ? 0 : one.tokens;
    EXPECT_GT(tokens, 0);
    EXPECT_EQ(guard.kls[step].tokens, tokens);
    const double sum = std::accumulate(guard.kls[step].sums.begin(), guard.kls[step].sums.end(), 0.0);
    if (step == 0)
      EXPECT_NEAR(sum, 0, 1e-6);
    else
      EXPECT_GT(sum, 1e-6);
  }
}

TEST_F(OnlineDpoRun, RehearsalChangesNothing) {
  Watcher silent;
  const auto run = open_run(plan("run", kLength), silent);
  const at::Tensor values = run->adapter->flat().clone();
  run->adapter->zero_gradient();
  const Rehearsal first = run->method->rehearse({.max_tokens = 64});
  const at::Tensor gradient = run->adapter->flat_gradient().clone();
  EXPECT_NEAR(first.loss, std::log(2.0), 1e-6);  // a new adapter is its reference
  EXPECT_GT(gradient.abs().max().item<double>(), 0);
  EXPECT_LT(first.sampler_gap.value_or(1), 1e-4);
  EXPECT_TRUE(at::equal(run->adapter->flat(), values));
  run->adapter->zero_gradient();
  run->method->rehearse({.max_tokens = 64});
  EXPECT_TRUE(at::equal(run->adapter->flat_gradient(), gradient));
}

TEST_F(OnlineDpoRun, SamplesOfAStepRunAgainOneByOne) {
  Watcher silent;
  const auto run = open_run(plan("run", kLength), silent);
  run->adapter->zero_gradient();
  run->method->backward(0);
  int seen = 0;
  run->method->replay_samples(0, [&](const ReplayedSample& one) {
    EXPECT_NE(one.name.find("prompt of line"), std::string::npos);
    seen += 1;
    return true;
  });
  EXPECT_EQ(seen, 4);
}

}  // namespace online_dpo_test
}  // namespace hone::train
