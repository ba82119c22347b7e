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
#include "text/vocabulary_hash.h"
#include "train/batches/rollout_batch.h"
#include "train/opening/open_run.h"
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
  // What opening the run says.
  static std::string error_of(const config::Plan& asked) {
    Watcher silent;
    try {
      open_run(asked, silent);
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "it was opened";
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

// num_tokens has the prompts and what the model drew: not what tools gave. It goes on after a resume.
TEST_F(DistillRun, NumTokensAreThoseOfPromptsAndOfWhatWasDrawn) {
  const auto sample = [](std::size_t prompt, const std::vector<int>& ids) {
    return base::Json(
        {{"prompt", prompt}, {"ids", ids}, {"truncated", false}, {"rewards", base::Json::array()}});
  };
  base::Json acted = sample(2, {47, 48, 49, 50, 51, 52, 53});
  acted["given"] = {{1, 3}, {5, 6}};
  std::ofstream file(root_ / "hand.jsonl");
  for (int i = 0; i < 3; ++i) {
    base::Json prompts = base::Json::array();
    for (int p = 0; p < 4; ++p) prompts.push_back({{"row", p}, {"ids", std::vector<int>(p + 1 + i, 60)}});
    file << base::dump_json(
                {{"format", "hone-rollouts-2"},
                 {"generation", i},
                 {"reward_names", base::Json::array()},
                 {"tools", true},
                 {"prompts", prompts},
                 {"samples", {sample(0, {40}), sample(1, {41, 42}), acted, sample(3, {50, 51, 52})}}})
         << "\n";
  }
  file.close();
  const Words words = {"--replay", (root_ / "hand.jsonl").string(), "--max_steps", "3"};
  const std::vector<std::int64_t> wanted = {10 + 10, 10 + 10 + 14 + 10, 10 + 10 + 14 + 10 + 18 + 10};
  const auto counted = [](const Watcher& run) {
    std::vector<std::int64_t> out;
    for (const StepFacts& step : run.steps) out.push_back(step.num_tokens);
    return out;
  };
  const auto whole = go("whole", words);
  EXPECT_EQ(counted(*whole), wanted);
  EXPECT_EQ(value_of(whole->records.at(2).values, "num_tokens"), 72);
  go("parts", words, 1);
  const auto rest = go("parts", with(words, {"--resume_from_checkpoint", "true"}));
  EXPECT_EQ(counted(*rest), (std::vector<std::int64_t>{wanted[1], wanted[2]}));
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

// GKD: some micro-batches have the completions of the data.
TEST_F(DistillRun, SomeMicroBatchesHaveTheCompletionsOfTheData) {
  const Words mixed = {"--dataset_name",
                       (kFixtures / "sft" / "messages.jsonl").string(),
                       "--lmbda",
                       "0.5",
                       "--dump_rollouts",
                       "--loss_temperature",
                       "1",
                       "--temperature",
                       "0.9"};
  const auto whole = go("whole", mixed);
  Watcher silent;
  const auto all_given = open_run(plan("given", with(mixed, {"--lmbda", "0"})), silent);
  const auto given = [&](const RolloutSample& sample, const RolloutBatch& batch) {
    const auto row = static_cast<std::size_t>(batch.prompts[sample.prompt].row);
    return all_given->data.sampled().train_given.at(row).ids == sample.ids;
  };
  int of_data = 0, of_model = 0;
  for (const RolloutBatch& batch : read_rollouts(root_ / "whole" / kRolloutsFile)) {
    double fraction = 0;
    for (std::size_t micro = 0; micro < 2; ++micro) {
      const bool first = given(batch.samples[2 * micro], batch),
                 second = given(batch.samples[2 * micro + 1], batch);
      EXPECT_EQ(first, second) << "a micro-batch is of one kind";
      (first ? of_data : of_model) += 1;
      fraction += first ? 0 : 0.5;
    }
    const auto step = static_cast<std::size_t>(batch.generation);
    EXPECT_EQ(value_of(whole->steps.at(step).metrics, "sampled_fraction"), fraction);
  }
  EXPECT_GT(of_data, 0);
  EXPECT_GT(of_model, 0);
  go("parts", mixed, 2);
  go("parts", with(mixed, {"--resume_from_checkpoint", "true"}));
  EXPECT_EQ(adapter("whole"), adapter("parts"));
  EXPECT_EQ(base::read_text(root_ / "whole" / kRolloutsFile),
            base::read_text(root_ / "parts" / kRolloutsFile));
}

TEST_F(DistillRun, RowsWithoutCompletionsAreRefusedWhereTheyAreNeeded) {
  try {
    go("run", {"--lmbda", "0.5"});
    FAIL() << "it went on";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("no completion"), std::string::npos) << error.what();
  }
}

// With seq_kd and lmbda 0 the teacher draws all: a teacher that is a copy of the student without adapter draws what it would draw.
TEST_F(DistillRun, TheTeacherSamplesWhereItIsAskedTo) {
  const Words once = {"--max_steps", "1", "--dump_rollouts"};
  go("model", once);
  go("teacher", with(once, {"--seq_kd", "--lmbda", "0"}));
  const auto ids_of = [&](const std::string& name) {
    std::vector<std::vector<std::int32_t>> out;
    const std::vector<RolloutBatch> batches = read_rollouts(root_ / name / kRolloutsFile);
    for (const RolloutSample& one : batches.front().samples) out.push_back(one.ids);
    return out;
  };
  EXPECT_NE(ids_of("model"), ids_of("teacher"));
  const fs::path copy = root_ / "folder_of_teacher";
  fs::copy(kFixtures / "tiny_llama", copy);
  go("copy", with(once, {"--seq_kd", "--lmbda", "0", "--teacher_model_name_or_path", copy.string()}));
  EXPECT_EQ(ids_of("model"), ids_of("copy")) << "a new adapter is 0";
  EXPECT_THROW(go("own", with(once, {"--seq_kd", "--lmbda", "0", "--teacher_model_name_or_path",
                                     (kFixtures / "tiny_llama").string()})),
               base::UserError);
}

// The options compare words; two words may be one folder, and a form that is named may be the model's own.
TEST_F(DistillRun, TheModelIsItsOwnTeacherHoweverItIsSpelled) {
  const std::string own = (kFixtures / "tiny_llama").string();
  fs::create_directory_symlink(fs::absolute(own), root_ / "link");
  const std::vector<Words> spellings = {
      {"--teacher_model_name_or_path", own + "/"},
      {"--teacher_model_name_or_path", (root_ / "link").string()},
      {"--teacher_model_name_or_path", own, "--teacher_model_init_kwargs", R"({"dtype": "float32"})"},
      {"--teacher_model_name_or_path", own, "--load_in_4bit", "--teacher_quantization", "nf4"}};
  int index = 0;
  for (const Words& words : spellings) {
    std::string text;
    try {
      text = error_of(plan("run" + std::to_string(index++), with(words, {"--seq_kd", "--lmbda", "0"})));
    } catch (const base::UserError& error) {
      text = error.what();  // options that say so already
    }
    EXPECT_NE(text.find("another form of the model"), std::string::npos) << text << "\nof " << words.back();
  }
}

// What a policy gradient needs of a recorded sample.
TEST_F(DistillRun, ASampleWithoutLogProbabilitiesIsRefused) {
  const Words sampled = {"--loss_type", "sampled", "--max_steps", "1"};
  go("live", with(sampled, {"--dump_rollouts"}));
  const fs::path file = root_ / "live" / kRolloutsFile;
  go("again", with(sampled, {"--replay", file.string()}));
  EXPECT_EQ(adapter("live"), adapter("again"));
  base::Json batch = base::parse_json(base::read_text(file), "rollouts");
  batch["samples"][1].erase("old_logprobs");
  const fs::path other = root_ / "without.jsonl";
  std::ofstream(other) << base::dump_json(batch) << "\n";
  const std::string text = error_of(plan("without", with(sampled, {"--replay", other.string()})));
  EXPECT_NE(text.find("sample 1 has none"), std::string::npos) << text;
}

// A replay has its completions: a note says that what would mix them does nothing.
TEST_F(DistillRun, AReplayDoesNotMix) {
  go("live", {"--dump_rollouts", "--max_steps", "1"});
  const config::Plan asked = plan("again", {"--replay", (root_ / "live" / kRolloutsFile).string(),
                                            "--max_steps", "1", "--lmbda", "0.5", "--seq_kd"});
  for (const char* const name : {"lmbda: not used", "seq_kd: not used"}) {
    EXPECT_TRUE(std::any_of(asked.notes.begin(), asked.notes.end(), [&](const std::string& note) {
      return note.starts_with(name);
    })) << name;
  }
  Watcher silent;
  const auto run = open_run(asked, silent);
  const std::string loss = std::get<PolicyStartFacts>(run->start.method).loss;
  EXPECT_EQ(loss.find("micro-batches"), std::string::npos) << loss;
}

TEST_F(DistillRun, GivenRowsAreBoundAsPromptsAre) {
  config::Plan asked =
      plan("cut", {"--dataset_name", (kFixtures / "sft" / "messages.jsonl").string(), "--lmbda", "0.5"});
  asked.max_prompt_length = 2;
  Watcher silent;
  const auto run = open_run(asked, silent);
  const auto& given = run->data.sampled().train_given;
  ASSERT_FALSE(given.empty());
  for (const data::GivenCompletion& one : given) EXPECT_LE(one.prompt.size(), 2U);

  const fs::path rows = root_ / "long.jsonl";
  std::string answer;
  for (int i = 0; i < 600; ++i) answer += " 5";
  std::ofstream(rows) << base::dump_json({{"prompt", "2 + 3 ="}, {"completion", " 5"}}) << "\n"
                      << base::dump_json({{"prompt", "2 + 3 ="}, {"completion", answer}}) << "\n";
  const std::string text = error_of(plan("long", {"--dataset_name", rows.string(), "--lmbda", "0.5"}));
  EXPECT_NE(text.find("long.jsonl:2"), std::string::npos) << text;
  EXPECT_NE(text.find("512 positions"), std::string::npos) << text;
}

// On policy the ratio is 1, so that the loss is the estimate of the KL itself, times the factor.
TEST_F(DistillRun, ThePolicyGradientReadsOneLogProbabilityAToken) {
  const Words sampled = {"--loss_type", "sampled", "--max_steps", "1"};
  const auto once = go("once", sampled);
  const auto twice = go("twice", with(sampled, {"--kl_penalty_coef", "2"}));
  const auto later = go("later", with(sampled, {"--kl_discount_factor", "1"}));
  const StepFacts& first = once->steps.at(0);
  EXPECT_GT(first.grad_norm, 0);
  EXPECT_NEAR(first.loss, value_of(first.metrics, "teacher_kl"), 1e-5);
  EXPECT_NEAR(twice->steps.at(0).loss, 2 * first.loss, 1e-5);
  EXPECT_NEAR(twice->steps.at(0).grad_norm, 2 * first.grad_norm, 1e-4);
  EXPECT_EQ(value_of(later->steps.at(0).metrics, "teacher_kl"), value_of(first.metrics, "teacher_kl"));
  EXPECT_NE(later->steps.at(0).loss, first.loss);
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

// On policy the loss is the estimate too; batches of one size make both the same mean.
TEST_F(DistillRun, AnEvaluationOfThePolicyGradientHasItsMetric) {
  const auto run = go("run", {"--loss_type", "sampled", "--eval_dataset",
                              (kFixtures / "trl_grpo" / "prompts.jsonl").string(), "--eval_strategy", "steps",
                              "--eval_steps", "1", "--max_steps", "1", "--per_device_eval_batch_size", "1"});
  int evaluations = 0;
  for (const LogRecord& record : run->records) {
    const double loss = value_of(record.values, "eval_loss");
    if (std::isnan(loss)) continue;
    evaluations += 1;
    EXPECT_NE(loss, 0);
    EXPECT_NEAR(value_of(record.values, "eval_teacher_kl"), loss, 1e-4);
  }
  EXPECT_EQ(evaluations, 1);
}

// The plan names the teacher's weights, and without them it is at most 1.3 times that of GRPO with the same student and passes.
TEST_F(DistillRun, TheTeachersBytesArePlanned) {
  Watcher silent;
  const Words same = {"--max_completion_length",       "256", "--per_device_train_batch_size", "4",
                      "--gradient_accumulation_steps", "1"};
  const auto distill = open_run(plan("distill", same), silent);
  std::int64_t teacher = 0;
  for (const MemorySegment& one : distill->start.memory.segments) {
    if (one.name == kTeacherSegment) teacher = one.bytes;
  }
  const auto other = distill->second_model.lock();
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(teacher, other->parameter_bytes());
  config::Plan grpo = config::parse_run(
      config::Method::kGrpo,
      with(same,
           {"--model_name_or_path", (kFixtures / "tiny_llama").string(), "--dataset_name",
            (kFixtures / "trl_grpo" / "prompts.jsonl").string(), "--reward_funcs", "regex(pattern=\"a\")",
            "--use_peft", "--bf16", "false", "--threads", "1", "--num_generations", "4", "--share_prompt",
            "false", "--lora_target_modules", "all-linear", "--output_dir", (root_ / "grpo").string()}));
  const auto group = open_run(grpo, silent);
  EXPECT_LE(static_cast<double>(distill->start.memory.total - teacher),
            1.3 * static_cast<double>(group->start.memory.total));
}

// A number a token needs no hidden states, and the teacher is called so all the same.
TEST_F(DistillRun, ThePolicyGradientPlansNoHiddenStates) {
  Watcher silent;
  const auto run = open_run(plan("run", {"--loss_type", "sampled"}), silent);
  std::int64_t teacher = 0;
  for (const MemorySegment& one : run->start.memory.segments) {
    EXPECT_EQ(one.name.find("hidden states"), std::string::npos);
    if (one.name == kTeacherSegment) teacher = one.bytes;
  }
  const auto other = run->second_model.lock();
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(teacher, other->parameter_bytes());
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
  EXPECT_NE(text::vocabulary_hash(own), text::vocabulary_hash(text::Tokenizer::from_folder(folder)));
  EXPECT_EQ(text::vocabulary_hash(own),
            text::vocabulary_hash(text::Tokenizer::from_folder(kFixtures / "tiny_gemma2")));
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
