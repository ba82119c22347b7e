// Tiny runs for the probes, opened and not begun, and methods that are broken on purpose.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "config/parse.h"
#include "doctor/examination.h"
#include "train/opening/open_run.h"

namespace hone::doctor {

namespace fs = base::fs;

class ProbeTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  using Words = std::vector<std::string>;

  config::Plan sft(const std::string& name, const Words& more = {}) const {
    return plan(config::Method::kSft, name, (fixtures() / "sft" / "text.jsonl").string(),
                {"--per_device_train_batch_size", "2", "--learning_rate", "1e-4"}, more);
  }
  config::Plan grpo(const std::string& name, const Words& more = {}) const {
    return plan(config::Method::kGrpo, name, (fixtures() / "trl_grpo" / "prompts.jsonl").string(),
                {"--per_device_train_batch_size", "4", "--num_generations", "4", "--max_completion_length",
                 "6", "--learning_rate", "1e-4", "--reward_funcs", "length(target=6)"},
                more);
  }
  config::Plan dpo(const std::string& name, const Words& more = {}) const {
    return plan(config::Method::kDpo, name, (fixtures() / "trl_dpo" / "explicit.jsonl").string(),
                {"--per_device_train_batch_size", "2", "--learning_rate", "1e-4"}, more);
  }
  std::unique_ptr<train::OpenedRun> open(const config::Plan& plan) {
    return train::open_run(plan, listener_);
  }

  static fs::path fixtures() { return fs::path(HONE_FIXTURES) / "parity"; }

  fs::path root_ = fs::temp_directory_path() / ("hone_probes_" + std::to_string(getpid()));
  train::RunListener listener_;

 private:
  config::Plan plan(config::Method method, const std::string& name, const std::string& data,
                    const Words& of_method, const Words& more) const {
    Words words = {"--model_name_or_path",
                   (fixtures() / "tiny_llama").string(),
                   "--dataset_name",
                   data,
                   "--use_peft",
                   "--max_steps",
                   "3",
                   "--logging_steps",
                   "1",
                   "--lora_dropout",
                   "0.1",
                   "--threads",
                   "1",
                   "--output_dir",
                   (root_ / name).string()};
    words.insert(words.end(), of_method.begin(), of_method.end());
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(method, words);
  }
};

// The run's own method, whose rehearsals pass through a fault.
class FaultyMethod final : public train::TrainingMethod {
 public:
  using Fault = std::function<void(const train::RehearsalRequest&, train::Rehearsal&)>;
  FaultyMethod(std::unique_ptr<TrainingMethod> inner, Fault fault)
      : inner_(std::move(inner)), fault_(std::move(fault)) {}

  train::StepLoss backward(std::int64_t step) override { return inner_->backward(step); }
  void on_step(std::int64_t step) override { inner_->on_step(step); }
  train::StateFiles state_files() const override { return inner_->state_files(); }
  bool has_evaluation() const override { return inner_->has_evaluation(); }
  train::EvalFacts evaluate() override { return inner_->evaluate(); }
  std::int64_t steps_per_epoch() const override { return inner_->steps_per_epoch(); }
  std::int64_t total_steps() const override { return inner_->total_steps(); }
  double epoch_after(std::int64_t step) const override { return inner_->epoch_after(step); }
  train::Rehearsal rehearse(const train::RehearsalRequest& request) override {
    train::Rehearsal out = inner_->rehearse(request);
    fault_(request, out);
    return out;
  }

 private:
  std::unique_ptr<TrainingMethod> inner_;
  Fault fault_;
};

inline void break_method(train::OpenedRun& run, FaultyMethod::Fault fault) {
  run.method = std::make_unique<FaultyMethod>(std::move(run.method), std::move(fault));
}

// The verdict of that code, or one that says there is none.
inline base::Verdict verdict_of(const Verdicts& verdicts, const std::string& code) {
  const base::Verdict* found = nullptr;
  for (const base::Verdict& one : verdicts) {
    if (one.code == code && (found == nullptr || one.level > found->level)) found = &one;
  }
  return found != nullptr ? *found : base::Verdict{.code = "none of " + code};
}

inline std::string describe(const Verdicts& verdicts) {
  std::string out;
  for (const base::Verdict& one : verdicts) {
    out += one.code + " level " + std::to_string(static_cast<int>(one.level)) + ": " + one.what + " | " +
           one.evidence + " | " + one.cause + "\n";
  }
  return out;
}

inline base::Level worst(const Verdicts& verdicts) {
  base::Level out = base::Level::kOk;
  for (const base::Verdict& one : verdicts) out = std::max(out, one.level);
  return out;
}

}  // namespace hone::doctor

// The verdict has that level, and its words hold `part`.
#define EXPECT_VERDICT(verdicts, name, of_level, part)                                      \
  do {                                                                                      \
    const Verdicts& all_ = (verdicts);                                                      \
    const base::Verdict found_ = verdict_of(all_, name);                                    \
    EXPECT_EQ(found_.code, name) << describe(all_);                                         \
    EXPECT_EQ(found_.level, of_level) << describe(all_);                                    \
    EXPECT_NE((found_.what + found_.evidence + found_.cause).find(part), std::string::npos) \
        << describe(all_);                                                                  \
  } while (false)
