// The examination of whole runs on the tiny Llama: it changes nothing, and a failure trains nothing.
#include "doctor/examiner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "config/parse.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {
namespace examiner_test {

namespace fs = base::fs;

class Listener final : public train::RunListener {
 public:
  void on_verdict(const base::Verdict& verdict, std::int64_t step) override {
    EXPECT_EQ(step, 0);
    verdicts.push_back(verdict);
  }
  std::vector<base::Verdict> verdicts;
};

class ExaminerTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  config::Plan plan(config::Method method, const std::string& name, const std::vector<std::string>& more) {
    const fs::path fixtures = fs::path(HONE_FIXTURES) / "parity";
    const bool samples = method != config::Method::kSft;
    const fs::path rows = samples ? fixtures / "trl_grpo" / "prompts.jsonl" : fixtures / "sft" / "text.jsonl";
    std::vector<std::string> words = {"--model_name_or_path",
                                      (fixtures / "tiny_llama").string(),
                                      "--dataset_name",
                                      rows.string(),
                                      "--use_peft",
                                      "--max_steps",
                                      "3",
                                      "--save_strategy",
                                      "no",
                                      "--per_device_train_batch_size",
                                      "4",
                                      "--learning_rate",
                                      "1e-3",
                                      "--threads",
                                      "2",
                                      "--lora_dropout",
                                      "0.1",
                                      "--output_dir",
                                      (root_ / name).string()};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(method, words);
  }
  // The adapter that a run with or without an examination ends with; "" when it was stopped.
  std::string train(const config::Plan& run, bool examined, Listener& listener) {
    const std::atomic<bool> stop = false;
    const auto opened = train::open_run(run, listener);
    Examiner examiner({}, listener);
    Guards guards;
    if (examined) guards.add(examiner);
    train::begin_run(*opened, listener, stop, &guards);
    return base::read_text(fs::path(run.output_dir) / std::string(train::kAdapterWeightsFile));
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_examiner_" + std::to_string(getpid()));
};

const std::vector<std::string> kPolicy = {
    "--reward_funcs", "length(target=6)", "--num_generations", "4", "--max_completion_length", "6"};

TEST_F(ExaminerTest, ARunWithItIsTheRunWithoutItBitForBit) {
  for (const config::Method method : {config::Method::kSft, config::Method::kGrpo}) {
    const std::vector<std::string> more =
        method == config::Method::kSft ? std::vector<std::string>() : kPolicy;
    Listener with, without;
    EXPECT_EQ(train(plan(method, "with", more), true, with),
              train(plan(method, "without", more), false, without));
    EXPECT_TRUE(without.verdicts.empty());
    ASSERT_FALSE(with.verdicts.empty());
    EXPECT_EQ(with.verdicts.back().part, "doctor");
    EXPECT_EQ(with.verdicts.back().level, base::Level::kOk);
    EXPECT_NE(with.verdicts.back().what.find("gradient"), std::string::npos) << with.verdicts.back().what;
    fs::remove_all(root_);
  }
}

TEST_F(ExaminerTest, PartsAreThoseOfTheMethodAndTheDepth) {
  const auto count = [](bool samples, Depth depth) { return exam_parts(samples, depth).size(); };
  EXPECT_EQ(count(false, Depth::kRun), 6U);
  EXPECT_EQ(count(true, Depth::kRun), 8U);
  EXPECT_EQ(count(false, Depth::kDeep), 9U);
  EXPECT_EQ(count(true, Depth::kDeep), 12U);
}

class Pauser final : public train::RunGuard {
 public:
  Pauser(train::GuardAction course, std::int64_t pinned) : course_(course), pinned_(pinned) {}
  train::GuardAction on_step(const train::StepFacts&, const adapters::Adapter&) override {
    calls += 1;
    return course_;
  }
  std::int64_t pinned_step() const override { return pinned_; }
  int calls = 0;

 private:
  train::GuardAction course_;
  std::int64_t pinned_;
};

TEST_F(ExaminerTest, SeveralGuardsAreAllAskedAndOnePauseIsAPause) {
  Pauser pauses(train::GuardAction::kPause, 3), goes_on(train::GuardAction::kContinue, 7);
  Guards guards;
  guards.add(pauses);
  guards.add(goes_on);
  EXPECT_EQ(guards.pinned_step(), 7);
  Listener listener;
  const std::atomic<bool> stop = false;
  const auto opened = train::open_run(plan(config::Method::kSft, "paused", {}), listener);
  const train::LoopResult result = train::begin_run(*opened, listener, stop, &guards);
  EXPECT_TRUE(result.paused);
  EXPECT_EQ(result.step, 1);
  EXPECT_EQ(goes_on.calls, 1);
  EXPECT_EQ(Guards().pinned_step(), -1);
}

}  // namespace examiner_test
}  // namespace hone::doctor
