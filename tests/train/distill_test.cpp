// Distillation from the outside: whole runs on the tiny Llama with a tiny Gemma 2 or itself as the teacher, resume, replay,
// accumulation, evaluation, rehearsing, and vocabularies that differ. TRL's numbers: tests/parity/trl_distill_test.cpp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "config/parse.h"
#include "train/opening/open_run.h"
#include "train/references/same_vocabulary.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace distill_test {

namespace fs = base::fs;
using Words = std::vector<std::string>;

const fs::path kFixtures = fs::path(HONE_FIXTURES) / "parity";

double value_of(const std::vector<NamedValue>& values, const std::string& name) {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

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

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class DistillRun : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  config::Plan plan(const std::string& name, const Words& more) {
    // Every eighth token ends a completion: the tiny model would draw its one end token too rarely.
    base::Json ends = base::Json::array();
    for (int id = 2; id < 384; id += 8) ends.push_back(id);
    const Words words = {"--model_name_or_path",
                         (kFixtures / "tiny_llama").string(),
                         "--teacher_model_name_or_path",
                         (kFixtures / "tiny_gemma2").string(),
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
    const bool replays = std::find(more.begin(), more.end(), "--replay") != more.end();
    Words all = with(words, more);
    if (!replays) all = with(all, {"--generation_kwargs", base::dump_json({{"eos_token_id", ends}})});
    return config::parse_run(config::Method::kDistill, all);
  }
  std::unique_ptr<Watcher> go(const std::string& name, const Words& more, std::int64_t stop_after = 0) {
    auto watcher = std::make_unique<Watcher>();
    watcher->stop_after = stop_after;
    begin_run(*open_run(plan(name, more), *watcher), *watcher, watcher->stop);
    return watcher;
  }
  std::string adapter(const std::string& name) { return base::read_text(root_ / name / kAdapterWeightsFile); }

  fs::path root_ = fs::temp_directory_path() / ("hone_distill_" + std::to_string(getpid()));
};

TEST_F(DistillRun, TheModelComesNearTheTeacher) {
  const auto run = go("run", {"--max_steps", "40", "--learning_rate", "1e-2", "--lr_scheduler_type",
                              "constant", "--save_strategy", "no", "--per_device_train_batch_size", "12",
                              "--gradient_accumulation_steps", "1"});
  ASSERT_EQ(run->steps.size(), 40U);
  double before = 0, after = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    before += run->steps[i].loss / 5;
    after += run->steps[35 + i].loss / 5;
  }
  EXPECT_LT(after, 0.8 * before);
}

TEST_F(DistillRun, AResumedRunEndsTheSame) {
  const Words words = {"--dump_rollouts", "--beta", "0.5"};
  go("whole", words);
  go("parts", words, 2);
  const auto second = go("parts", with(words, {"--resume_from_checkpoint", "true"}));
  EXPECT_EQ(second->rollouts.size(), 2U);
  EXPECT_EQ(adapter("whole"), adapter("parts"));
  EXPECT_EQ(base::read_text(root_ / "whole" / kRolloutsFile),
            base::read_text(root_ / "parts" / kRolloutsFile));
}

TEST_F(DistillRun, ReplayingADumpGivesTheSameAdapter) {
  go("live", {"--dump_rollouts"});
  go("again", {"--replay", (root_ / "live" / kRolloutsFile).string()});
  EXPECT_EQ(adapter("live"), adapter("again"));
}

// The loss is a mean over the step's tokens, however they are cut into micro-batches; and the two forms agree.
TEST_F(DistillRun, AccumulationAndFormsChangeNothing) {
  go("live", {"--dump_rollouts", "--max_steps", "1"});
  const Words replay = {"--replay",      (root_ / "live" / kRolloutsFile).string(),
                        "--max_steps",   "1",
                        "--beta",        "0.5",
                        "--temperature", "0.7"};
  const auto parts =
      go("parts", with(replay, {"--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "4"}));
  const auto whole =
      go("whole", with(replay, {"--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "1"}));
  const auto plain = go("plain", with(replay, {"--layer_form", "plain"}));
  const double norm = whole->steps[0].grad_norm;
  EXPECT_GT(norm, 0);
  EXPECT_NEAR(parts->steps[0].grad_norm, norm, 1e-5 * norm);
  EXPECT_NEAR(parts->steps[0].loss, whole->steps[0].loss, 1e-6);
  EXPECT_NEAR(plain->steps[0].grad_norm, norm, 1e-5 * norm);
}

// TRL's num_items_in_batch: a step's loss is a mean over all its tokens, whatever the lengths in its micro-batches are.
TEST_F(DistillRun, TheLossIsTheMeanOverTheStepsTokens) {
  const std::vector<std::vector<int>> completions = {{40}, {41, 42, 43, 44, 45, 46}, {47, 48, 49}, {50, 51}};
  base::Json prompts = base::Json::array(), samples = base::Json::array();
  for (std::size_t i = 0; i < completions.size(); ++i) {
    prompts.push_back({{"row", i}, {"ids", {3, 60 + static_cast<int>(i)}}});
    samples.push_back(
        {{"prompt", i}, {"ids", completions[i]}, {"truncated", false}, {"rewards", base::Json::array()}});
  }
  const fs::path file = root_ / "hand.jsonl";
  std::ofstream(file) << base::Json({{"format", "hone-rollouts-1"},
                                     {"generation", 0},
                                     {"reward_names", base::Json::array()},
                                     {"prompts", prompts},
                                     {"samples", samples}})
                             .dump()
                      << "\n";
  Watcher silent;
  const auto run = open_run(plan("hand", {"--replay", file.string()}), silent);
  const StepLoss step = run->method->backward(0);
  double sum = 0, tokens = 0;
  std::size_t seen = 0;
  run->method->replay_samples(0, [&](const ReplayedSample& one) {
    const auto own = static_cast<double>(completions[seen++].size());
    sum += one.loss * own;  // of one sample its own mean
    tokens += own;
    return true;
  });
  EXPECT_EQ(tokens, 12);
  EXPECT_NEAR(step.loss, sum / 12, 1e-6);
}

// The teacher is the base with the adapter off: an adapter that is 0 is its own teacher.
TEST_F(DistillRun, TheModelsOwnBaseIsReadOnce) {
  const Words own = {"--teacher_model_name_or_path", (kFixtures / "tiny_llama").string(), "--max_steps", "1"};
  const auto fresh = go("fresh", own);
  EXPECT_EQ(fresh->steps[0].loss, 0);
  Watcher silent;
  const Words continued =
      with(own, {"--adapter_name_or_path", (kFixtures / "tiny_llama" / "adapter").string()});
  const auto run = open_run(plan("continued", continued), silent);
  EXPECT_TRUE(run->second_model.expired());
  EXPECT_GT(run->method->rehearse({.max_tokens = 64}).loss, 1e-4);
}

TEST_F(DistillRun, AQuantizedModelIsItsOwnTeacherInThatForm) {
  Watcher silent;
  const Words own = {"--teacher_model_name_or_path", (kFixtures / "tiny_llama").string(), "--load_in_4bit"};
  EXPECT_TRUE(open_run(plan("run", own), silent)->second_model.expired());
}

// By a pattern, or in an adapter that is continued: the loss would not see it.
TEST_F(DistillRun, LoraOnTheHeadIsRefusedHoweverItCame) {
  config::Plan asked = plan("run", {});
  asked.lora_target_modules = {".*(q_proj|lm_head)"};
  try {
    Watcher silent;
    open_run(asked, silent);
    FAIL() << "it went on";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("LoRA on lm_head"), std::string::npos) << error.what();
  }
}

TEST_F(DistillRun, AQuantizedTeacherTeachesToo) {
  const auto run = go("run", {"--teacher_quantization", "int8", "--max_steps", "1"});
  const auto plain = go("plain", {"--max_steps", "1"});
  EXPECT_NE(run->steps[0].loss, plain->steps[0].loss);
  EXPECT_NEAR(run->steps[0].loss / plain->steps[0].loss, 1, 0.05);
}

TEST_F(DistillRun, TrainsAllWeights) {
  const auto run = go("run", {"--use_peft", "false", "--learning_rate", "1e-3", "--max_steps", "3"});
  EXPECT_GT(run->steps[0].grad_norm, 0);
}

TEST_F(DistillRun, EvaluationIsAMeanOverHeldOutPrompts) {
  const auto run =
      go("run", {"--eval_dataset", (kFixtures / "trl_grpo" / "prompts.jsonl").string(), "--eval_strategy",
                 "steps", "--eval_steps", "2", "--per_device_eval_batch_size", "5"});
  int evaluations = 0;
  for (const LogRecord& record : run->records) {
    const double loss = value_of(record.values, "eval_loss");
    if (std::isnan(loss)) continue;
    evaluations += 1;
    EXPECT_GT(loss, 0);
    EXPECT_GT(value_of(record.values, "eval_entropy"), 0);
    EXPECT_GT(value_of(record.values, "eval_completions/mean_length"), 0);
  }
  EXPECT_EQ(evaluations, 2);
}

TEST_F(DistillRun, RehearsalChangesNothing) {
  Watcher silent;
  const auto run = open_run(plan("run", {}), silent);
  const at::Tensor values = run->adapter->flat().clone();
  run->adapter->zero_gradient();
  const Rehearsal first = run->method->rehearse({.max_tokens = 64});
  const at::Tensor gradient = run->adapter->flat_gradient().clone();
  EXPECT_GT(first.loss, 0);
  EXPECT_GT(gradient.abs().max().item<double>(), 0);
  EXPECT_LT(first.sampler_gap.value_or(1), 1e-4);
  EXPECT_TRUE(at::equal(run->adapter->flat(), values));
  run->adapter->zero_gradient();
  EXPECT_EQ(run->method->rehearse({.max_tokens = 64}).loss, first.loss);
  EXPECT_TRUE(at::equal(run->adapter->flat_gradient(), gradient));
  EXPECT_GT(run->method->rehearse({.max_tokens = 64, .adapters_on = false}).loss, 0);
}

// The tokens of ids 270 and 271 change places in a copy of the teacher's folder.
TEST_F(DistillRun, AnotherVocabularyIsRefusedByItsFirstToken) {
  const fs::path folder = root_ / "teacher";
  fs::copy(kFixtures / "tiny_gemma2", folder);
  base::Json tokenizer = base::parse_json(base::read_text(folder / "tokenizer.json"), "tokenizer.json");
  base::Json& words = tokenizer["model"]["vocab"];
  std::string first, second;
  for (const auto& [word, id] : words.items()) {
    if (id == 270) first = word;
    if (id == 271) second = word;
  }
  words[first] = 271;
  words[second] = 270;
  std::ofstream(folder / "tokenizer.json") << base::dump_json(tokenizer);
  const text::Tokenizer own = text::Tokenizer::from_folder(kFixtures / "tiny_llama");
  EXPECT_NE(vocabulary_hash(own), vocabulary_hash(text::Tokenizer::from_folder(folder)));
  EXPECT_EQ(vocabulary_hash(own), vocabulary_hash(text::Tokenizer::from_folder(kFixtures / "tiny_gemma2")));
  try {
    go("run", {"--teacher_model_name_or_path", folder.string()});
    FAIL() << "it went on";
  } catch (const base::UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("token 270 is '" + first + "'"), std::string::npos) << text;
    EXPECT_NE(text.find("teacher_model_name_or_path"), std::string::npos) << text;
  }
}

}  // namespace distill_test
}  // namespace hone::train
