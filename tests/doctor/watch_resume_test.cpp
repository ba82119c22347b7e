// A run that goes on from any of its checkpoints is judged as one that was never stopped: the same verdicts,
// in the same words, at the same steps, and what was told before is not told again. All methods, on the tiny
// Llama.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <ostream>

#include "base/error.h"
#include "base/json.h"
#include "config/parse.h"
#include "doctor/fault_report.h"
#include "doctor/watch/watch.h"
#include "doctor/watch/watch_state.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {
namespace watch_resume_test {

namespace fs = base::fs;
using base::Level;
using config::Method;
using Words = std::vector<std::string>;

struct Reported {
  std::string words;
  std::int64_t step = 0;
  bool operator==(const Reported&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Reported& one) {
  return out << "step " << one.step << ": " << one.words;
}

// Hears the verdicts, and stops the run after step `stop_after`.
class Recorder final : public train::RunListener {
 public:
  void on_verdict(const base::Verdict& one, std::int64_t step) override {
    told.push_back({.words = one.code + " " + std::to_string(static_cast<int>(one.level)) + " " + one.what +
                             " | " + one.evidence,
                    .step = step});
  }
  void on_step(const train::StepFacts& facts, std::int64_t) override {
    stop = stop || facts.step == stop_after;
  }
  bool has(const std::string& begin) const {
    return std::any_of(told.begin(), told.end(),
                       [&](const Reported& one) { return one.words.starts_with(begin); });
  }
  std::vector<Reported> told;
  std::int64_t stop_after = 0;
  std::atomic<bool> stop = false;
};

// A method whose steps are spoiled after they were made; without `inner` they are the spoiler's own.
class Spoiled final : public train::TrainingMethod {
 public:
  using Spoil = std::function<void(std::int64_t step, train::StepLoss& loss, adapters::Adapter& adapter)>;
  Spoiled(std::unique_ptr<TrainingMethod> inner, adapters::Adapter& adapter, Spoil spoil, bool runs_inner)
      : inner_(std::move(inner)), adapter_(adapter), spoil_(std::move(spoil)), runs_inner_(runs_inner) {}
  train::StepLoss backward(std::int64_t step) override {
    train::StepLoss out{.loss = 1};
    if (runs_inner_) {
      out = inner_->backward(step);
    } else {
      adapter_.flat_gradient().fill_(1e-3);
    }
    spoil_(step, out, adapter_);
    return out;
  }
  void on_step(std::int64_t step) override { inner_->on_step(step); }
  train::StateFiles state_files() const override { return inner_->state_files(); }
  bool has_evaluation() const override { return false; }
  train::EvalFacts evaluate() override { return {}; }
  std::int64_t steps_per_epoch() const override { return inner_->steps_per_epoch(); }
  std::int64_t total_steps() const override { return inner_->total_steps(); }
  double epoch_after(std::int64_t step) const override { return inner_->epoch_after(step); }
  train::Rehearsal rehearse(const train::RehearsalRequest&) override { return {}; }

 private:
  std::unique_ptr<TrainingMethod> inner_;
  adapters::Adapter& adapter_;
  Spoil spoil_;
  bool runs_inner_;
};

// Every fault at once, each a function of the step.
void spoil(std::int64_t step, train::StepLoss& loss, adapters::Adapter& adapter) {
  adapter.tensors()[3].value.mutable_grad().zero_();  // GRAD-02
  loss.live_rows = -1;                                // and its steps are looked at
  std::erase_if(loss.metrics, [](const auto& one) {
    return one.first == "dead_groups" || one.first == "skipped_rows" || one.first == "entropy" ||
           one.first == "kl" || one.first == "ratio_gap" || one.first.starts_with("rewards/") ||
           one.first.starts_with("logps/");
  });
  loss.loss = step < 2 ? 1.0 : 0.5;
  loss.metrics.emplace_back("rewards/margins", 0.0);  // PREF-01
  loss.metrics.emplace_back("rewards/chosen", 0.0);
  loss.metrics.emplace_back("entropy", step < 2 ? 1.0 : 0.001);  // RL-08
  loss.metrics.emplace_back("kl", step < 3 ? 0.0 : 5.0);         // RL-08
  loss.metrics.emplace_back("ratio_gap", step < 1 ? 0.0 : 0.5);  // RL-10, which gets worse
}

struct Case {
  const char* name;
  Method method;
  const char* data;
  Words more;
  Words codes;  // that the uninterrupted run is told
};

// 32 completions a batch are enough to speak of in three.
const Words kSampled = {"--max_completion_length",       "3",  "--num_generations", "4",
                        "--per_device_train_batch_size", "32", "--lora_dropout",    "0"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The rewards of a random model: always 0, always 1.
const Words kRewards = {"--reward_funcs", "think_format_reward", "regex(pattern=\"^\")"};
const Words kConstant = with(kSampled, kRewards);

std::vector<Case> cases() {
  const Words small = {"--per_device_train_batch_size", "2"};
  const Words plain = {"GRAD-02", "PREF-01"}, sampled = {"GRAD-02", "RL-02", "RL-03", "RL-04", "PREF-01"};
  return {{"sft", Method::kSft, "sft/text.jsonl", small, plain},
          {"dpo", Method::kDpo, "trl_dpo/explicit.jsonl", small, plain},
          {"kto", Method::kKto, "trl_kto/rows.jsonl", small, plain},
          {"reward", Method::kReward, "trl_reward/explicit.jsonl", small, plain},
          {"grpo", Method::kGrpo, "trl_grpo/prompts.jsonl", kConstant, with(sampled, {"RL-08", "RL-10"})},
          {"grpo_mid",
           Method::kGrpo,
           "trl_grpo/prompts.jsonl",
           with(kConstant, {"--per_device_train_batch_size", "16", "--steps_per_generation", "2"}),
           {"GRAD-02", "RL-02", "RL-03", "RL-04", "RL-08", "RL-10"}},
          {"rloo", Method::kRloo, "trl_grpo/prompts.jsonl", kConstant, with(sampled, {"RL-08", "RL-10"})},
          {"online_dpo",
           Method::kOnlineDpo,
           "trl_online_dpo/prompts.jsonl",
           with(kRewards,
                {"--max_new_tokens", "3", "--per_device_train_batch_size", "12", "--lora_dropout", "0"}),
           {"GRAD-02", "RL-02", "RL-04", "PREF-01"}}};
}

class WatchResume : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  config::Plan plan(Method method, const std::string& data, const std::string& name, const Words& more) {
    const fs::path fixtures = fs::path(HONE_FIXTURES) / "parity";
    const Words words = {"--model_name_or_path",
                         (fixtures / "tiny_llama").string(),
                         "--dataset_name",
                         (fixtures / data).string(),
                         "--use_peft",
                         "--bf16",
                         "false",
                         "--learning_rate",
                         "1e-4",
                         "--lr_scheduler_type",
                         "constant",
                         "--threads",
                         "1",
                         "--logging_steps",
                         "3",
                         "--save_steps",
                         "1",
                         "--max_steps",
                         "8",
                         "--report_to",
                         "none",
                         "--output_dir",
                         (root_ / name).string()};
    return config::parse_run(method, with(words, more));
  }

  struct Outcome {
    Recorder recorder;
    std::string kept;  // the watch's state in the last checkpoint
    std::int64_t step = 0;
  };
  // Runs `of` with the watch, or without one; spoiled where `by` is given.
  std::unique_ptr<Outcome> go(const config::Plan& of, const Spoiled::Spoil& by = {}, bool runs_inner = true,
                              config::OnFault on_fault = config::OnFault::kWarn,
                              std::int64_t stop_after = 0) {
    auto out = std::make_unique<Outcome>();
    out->recorder.stop_after = stop_after;
    Watch watch(out->recorder, on_fault);
    const auto run = train::open_run(of, watch);
    if (by) run->method = std::make_unique<Spoiled>(std::move(run->method), *run->adapter, by, runs_inner);
    out->step = train::begin_run(*run, watch, out->recorder.stop, &watch.guard()).step;
    const fs::path kept = train::checkpoint_path(of.output_dir, out->step) / kWatchStateFile;
    if (fs::exists(kept)) {
      base::Json state = base::parse_json(base::read_text(kept), kept.string());
      state.erase("healthy");  // a checkpoint of output_dir, which is another one here
      out->kept = base::dump_json(state);
    }
    return out;
  }
  std::string checkpoint(const std::string& name, std::int64_t step) {
    return train::checkpoint_path(root_ / name, step).string();
  }
  static std::vector<Reported> after(const std::vector<Reported>& all, std::int64_t step) {
    std::vector<Reported> out;
    std::copy_if(all.begin(), all.end(), std::back_inserter(out),
                 [step](const Reported& one) { return one.step > step; });
    return out;
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_watch_resume_" + std::to_string(getpid()));
};

using Steps = std::vector<std::int64_t>;

// The uninterrupted run of each method, and one from each of these steps on.
class WatchResumeOfAll : public WatchResume {
 protected:
  void expect_alike(const Steps& steps) {
    for (const Case& one : cases()) {
      SCOPED_TRACE(one.name);
      const auto whole = go(plan(one.method, one.data, one.name, one.more), spoil);
      for (const std::string& code : one.codes) EXPECT_TRUE(whole->recorder.has(code)) << code;
      for (const std::int64_t k : steps) {
        SCOPED_TRACE("resumed at " + std::to_string(k));
        const std::string name = std::string(one.name) + "_" + std::to_string(k);
        const Words resume = {"--resume_from_checkpoint", checkpoint(one.name, k), "--save_steps", "8"};
        const auto resumed = go(plan(one.method, one.data, name, with(one.more, resume)), spoil);
        EXPECT_EQ(resumed->recorder.told, after(whole->recorder.told, k));
        EXPECT_EQ(resumed->kept, whole->kept);
      }
    }
  }
};

// At 3 several of the counts stand one short of a verdict, or of a worse one.
TEST_F(WatchResumeOfAll, EveryMethodHasTheSameChecks) {
  expect_alike({3});
}

TEST_F(WatchResumeOfAll, SlowFromEveryCheckpoint) {
  expect_alike({1, 2, 4, 5, 6, 7});
}

// An error ends the fourth step after its completions were seen, and the third is saved: what the watch saw
// of the fourth is not in that checkpoint, since the step comes again.
TEST_F(WatchResume, AStepThatAnErrorEndedComesAgain) {
  const auto fails = [](std::int64_t step, train::StepLoss& loss, adapters::Adapter& adapter) {
    if (step == 3) throw base::UserError({.where = "step 4", .expected = "an answer", .found = "none"});
    spoil(step, loss, adapter);
  };
  const std::string data = "trl_grpo/prompts.jsonl";
  const auto whole = go(plan(Method::kGrpo, data, "whole", kConstant), spoil);
  const Words rarely = with(kConstant, {"--save_steps", "8"});
  EXPECT_THROW(go(plan(Method::kGrpo, data, "run", rarely), fails), base::UserError);
  const auto rest =
      go(plan(Method::kGrpo, data, "run", with(rarely, {"--resume_from_checkpoint", "true"})), spoil);
  const std::vector<Reported> expected = after(whole->recorder.told, 3);
  EXPECT_TRUE(std::any_of(expected.begin(), expected.end(), [](const Reported& one) {
    return one.step == 4 && one.words.starts_with("RL-02");
  })) << "the step that fails is one that is told of";
  EXPECT_EQ(rest->recorder.told, expected);
  EXPECT_EQ(rest->kept, whole->kept);
}

// The windows that are longer than a few steps: a loss and gradients that grow.
class WatchResumeOfLongWindows : public WatchResume {
 protected:
  static void grow(std::int64_t step, train::StepLoss& loss, adapters::Adapter& adapter) {
    loss.loss = step < 6 ? 2.0 + 0.1 * static_cast<double>(step) : 9.0;
    adapter.flat_gradient().fill_(step < 27 ? 1e-3 : 1.0);
    loss.metrics = {{"rewards/margins", 0.1 * static_cast<double>(step)},
                    {"rewards/chosen", -1.0},
                    {"logps/chosen", step < 6 ? -10.0 : -60.0}};
  }
  config::Plan pairs(const std::string& name, const Words& more) {
    return plan(Method::kDpo, "trl_dpo/explicit.jsonl", name,
                with({"--max_steps", "32", "--per_device_train_batch_size", "1"}, more));
  }
  void expect_alike(const Steps& steps, const std::string& save_steps) {
    const auto whole = go(pairs("whole", {"--save_steps", save_steps}), grow, false);
    EXPECT_TRUE(whole->recorder.has("NUM-08 3 the loss"));
    EXPECT_TRUE(whole->recorder.has("NUM-08 2 gradients"));
    EXPECT_TRUE(whole->recorder.has("PREF-02"));
    for (const std::int64_t k : steps) {
      const Words resume = {"--resume_from_checkpoint", checkpoint("whole", k), "--save_steps", "32"};
      const auto resumed = go(pairs("part_" + std::to_string(k), resume), grow, false);
      EXPECT_EQ(resumed->recorder.told, after(whole->recorder.told, k)) << "resumed at " << k;
      EXPECT_EQ(resumed->kept, whole->kept);
    }
  }
};

TEST_F(WatchResumeOfLongWindows, AreGoneOnWith) {
  expect_alike({4, 28}, "4");
}

TEST_F(WatchResumeOfLongWindows, SlowFromManyCheckpoints) {
  expect_alike({1, 5, 6, 7, 16, 24, 25, 26, 27, 29, 30, 31}, "1");
}

// All groups of the generation batch are dead, and with a KL term their rows are computed, not skipped: their
// gradient is exactly 0 while the policy is the reference. With and without what the watch keeps.
TEST_F(WatchResume, DeadGroupsInTheMiddleOfAGenerationBatchAreNoCutGradient) {
  const Words more = with(kSampled, {"--per_device_train_batch_size", "4", "--steps_per_generation", "8",
                                     "--beta", "0.1", "--reward_funcs", "think_format_reward"});
  const std::string data = "trl_grpo/prompts.jsonl";
  const auto whole = go(plan(Method::kGrpo, data, "whole", more));
  EXPECT_FALSE(whole->recorder.has("GRAD"));
  {
    train::RunListener silent;
    const std::atomic<bool> stop = false;
    train::begin_run(*train::open_run(plan(Method::kGrpo, data, "unwatched", more), silent), silent, stop);
  }
  EXPECT_FALSE(fs::exists(fs::path(checkpoint("unwatched", 2)) / kWatchStateFile));
  for (const std::int64_t k : {1, 4}) {
    const auto resumed = [&](const std::string& from) {
      return go(plan(Method::kGrpo, data, from + std::to_string(k),
                     with(more, {"--resume_from_checkpoint", checkpoint(from, k), "--save_strategy", "no"})));
    };
    EXPECT_EQ(resumed("whole")->recorder.told, after(whole->recorder.told, k)) << "resumed at " << k;
    EXPECT_FALSE(resumed("unwatched")->recorder.has("GRAD")) << "resumed at " << k;
  }
}

// A guard whose file is no watch's: the run goes on, with a note, to the same end.
TEST_F(WatchResume, AStateThatCannotBeReadIsANote) {
  struct Keeper final : train::RunGuard {
    explicit Keeper(std::string of) : text(std::move(of)) {}
    train::StateFiles state_files() const override { return {{kWatchStateFile, text}}; }
    std::string text;
  };
  go(plan(Method::kSft, "sft/text.jsonl", "whole", {"--max_steps", "3"}));
  const std::string good = base::read_text(fs::path(checkpoint("whole", 2)) / kWatchStateFile);
  const std::string end = base::read_text(root_ / "whole" / std::string(train::kAdapterWeightsFile));
  int number = 0;
  for (const std::string& text : {std::string(), std::string(300, '['), good.substr(0, good.size() / 2),
                                  std::string(R"({"format": "hone-watch-2"})")}) {
    SCOPED_TRACE(text);
    const std::string name = "bad_" + std::to_string(number++);
    const Keeper keeper(text);
    train::RunListener silent;
    const std::atomic<bool> stop = false;
    const auto run =
        train::open_run(plan(Method::kSft, "sft/text.jsonl", name, {"--max_steps", "3"}), silent);
    train::begin_run(*run, silent, stop, const_cast<Keeper*>(&keeper));
    const auto resumed = go(plan(Method::kSft, "sft/text.jsonl", name + "_on",
                                 {"--max_steps", "3", "--resume_from_checkpoint", checkpoint(name, 2)}));
    ASSERT_EQ(resumed->recorder.told.size(), 1U);
    EXPECT_TRUE(resumed->recorder.has(" 1 the watch's state in the checkpoint cannot be read"));
    EXPECT_EQ(base::read_text(root_ / (name + "_on") / std::string(train::kAdapterWeightsFile)), end);
  }
}

// Suspected before the resume: rotation leaves the last healthy checkpoint alone after it too.
TEST_F(WatchResume, TheHealthyCheckpointStaysPinned) {
  const auto apart = [](std::int64_t, train::StepLoss& loss, adapters::Adapter&) {
    loss.metrics = {{"entropy", 0.001}, {"reward", 0.5}};
  };
  const Words more = with(kConstant, {"--save_steps", "2", "--save_total_limit", "1", "--max_steps", "10"});
  const std::string data = "trl_grpo/prompts.jsonl";
  const auto first = go(plan(Method::kGrpo, data, "run", more), apart, false, config::OnFault::kWarn, 6);
  EXPECT_TRUE(first->recorder.has("RL-08"));
  EXPECT_EQ(train::checkpoint_steps(root_ / "run"), (std::vector<std::int64_t>{2, 6}));
  const auto second =
      go(plan(Method::kGrpo, data, "run", with(more, {"--resume_from_checkpoint", "true"})), apart, false);
  EXPECT_EQ(second->recorder.told, std::vector<Reported>{});
  EXPECT_EQ(train::checkpoint_steps(root_ / "run"), (std::vector<std::int64_t>{2, 10}));
}

TEST_F(WatchResume, ReportsOfBeforeAreNotThisRuns) {
  const auto frozen = [](std::int64_t, train::StepLoss&, adapters::Adapter& adapter) {
    adapter.tensors()[3].value.mutable_grad().zero_();
  };
  const auto paused =
      go(plan(Method::kSft, "sft/text.jsonl", "run", {}), frozen, true, config::OnFault::kPause);
  EXPECT_EQ(paused->step, 3);
  EXPECT_EQ(find_report(root_ / "run").filename().string(), train::kFaultFile);
  base::write_file_atomic(crash_report_path(root_ / "run", 17), "{}");
  const auto rest =
      go(plan(Method::kSft, "sft/text.jsonl", "run", {"--resume_from_checkpoint", "true"}), frozen);
  EXPECT_EQ(rest->step, 8);
  EXPECT_EQ(rest->recorder.told, std::vector<Reported>{}) << "GRAD-02 was told, and on_fault is warn now";
  EXPECT_EQ(find_report(root_ / "run"), fs::path()) << "it came to its end";
  EXPECT_TRUE(fs::exists(root_ / "run" / "earlier-hone-crash-17.json"));
}

// An option that changes what the numbers are of: the baselines are those of another run.
TEST_F(WatchResume, BaselinesOfOtherRewardsAreUnknown) {
  const std::string data = "trl_grpo/prompts.jsonl";
  go(plan(Method::kGrpo, data, "run", with(kConstant, {"--max_steps", "3"})));
  const auto other = go(plan(Method::kGrpo, data, "run",
                             with(kSampled, {"--max_steps", "8", "--reward_funcs", "length(target=3)",
                                             "think_format_reward", "--resume_from_checkpoint", "true"})));
  EXPECT_FALSE(other->recorder.has("RL-03 2 100 % of the first")) << "these are not the run's first";
  EXPECT_FALSE(other->recorder.has("RL-04"));
}

}  // namespace watch_resume_test
}  // namespace hone::doctor
