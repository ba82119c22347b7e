// The watch in the loop of a run on the tiny Llama, whose method is this test's: gradients and metrics as a
// fault would make them.
#include "doctor/watch/watch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <limits>
#include <map>

#include "base/error.h"
#include "config/parse.h"
#include "doctor/fault_report.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {
namespace watch_test {

namespace fs = base::fs;
using base::Level;

struct Reported {
  base::Verdict verdict;
  std::int64_t step = 0;
};

class Recorder final : public train::RunListener {
 public:
  void on_verdict(const base::Verdict& verdict, std::int64_t step) override {
    told.push_back({verdict, step});
  }
  const Reported* find(const std::string& code) const {
    for (const Reported& one : told) {
      if (one.verdict.code == code) return &one;
    }
    return nullptr;
  }
  std::vector<Reported> told;
};

// A method whose steps are a function of this test's.
class Scripted final : public train::TrainingMethod {
 public:
  using Step = std::function<train::StepLoss(std::int64_t step)>;
  Scripted(adapters::Adapter& adapter, Step step, std::int64_t steps)
      : adapter_(adapter), step_(std::move(step)), steps_(steps) {}
  train::StepLoss backward(std::int64_t step) override {
    adapter_.flat_gradient().fill_(1e-3);
    return step_(step);
  }
  bool has_evaluation() const override { return false; }
  train::EvalFacts evaluate() override { return {}; }
  std::int64_t steps_per_epoch() const override { return steps_; }
  std::int64_t total_steps() const override { return steps_; }
  double epoch_after(std::int64_t step) const override { return static_cast<double>(step); }
  train::Rehearsal rehearse(const train::RehearsalRequest&) override { return {}; }
  void replay_samples(std::int64_t, const std::function<bool(const train::ReplayedSample&)>& see) override {
    for (int i = 1; i <= 3; ++i) {
      adapter_.flat_gradient().add_(i == bad_sample ? std::numeric_limits<double>::quiet_NaN() : 1.0);
      if (!see({.name = "line " + std::to_string(i), .loss = 1})) return;
    }
  }
  int bad_sample = 0;

 private:
  adapters::Adapter& adapter_;
  Step step_;
  std::int64_t steps_;
};

class WatchTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  config::Plan plan(const std::vector<std::string>& more = {}) {
    const fs::path fixtures = fs::path(HONE_FIXTURES) / "parity";
    std::vector<std::string> words = {"--model_name_or_path",
                                      (fixtures / "tiny_llama").string(),
                                      "--dataset_name",
                                      (fixtures / "sft" / "text.jsonl").string(),
                                      "--use_peft",
                                      "--bf16",
                                      "false",
                                      "--max_steps",
                                      "8",
                                      "--save_steps",
                                      "2",
                                      "--per_device_train_batch_size",
                                      "2",
                                      "--learning_rate",
                                      "1e-3",
                                      "--lr_scheduler_type",
                                      "constant",
                                      "--threads",
                                      "1",
                                      "--logging_steps",
                                      "1",
                                      "--output_dir",
                                      (root_ / "run").string()};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(config::Method::kSft, words);
  }

  // Opens a run for `watch`, with a scripted method where `step` is given.
  std::unique_ptr<train::OpenedRun> open(const config::Plan& of, Watch& watch,
                                         const Scripted::Step& step = {}, std::int64_t steps = 8) {
    auto run = train::open_run(of, watch);
    if (step) run->method = std::make_unique<Scripted>(*run->adapter, step, steps);
    return run;
  }
  train::LoopResult go(train::OpenedRun& run, Watch& watch) {
    return train::begin_run(run, watch, stop_, &watch.guard());
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_watch_" + std::to_string(getpid()));
  std::atomic<bool> stop_ = false;
  Recorder recorder_;
};

train::StepLoss fine(std::int64_t /*step*/) {
  return {.loss = 1};
}

std::string ended_with(const std::function<void()>& call) {
  try {
    call();
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "";
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_F(WatchTest, AHealthyRunIsSilentAndLeavesNothingBehind) {
  Watch watch(recorder_, config::OnFault::kPause);
  const auto run = open(plan(), watch);
  EXPECT_FALSE(go(*run, watch).interrupted);
  EXPECT_TRUE(recorder_.told.empty()) << recorder_.told.front().verdict.what;
  EXPECT_FALSE(fs::exists(root_ / "run" / std::string(train::kRunningFile)));
  EXPECT_FALSE(fs::exists(root_ / "run" / std::string(train::kFaultFile)));
}

TEST_F(WatchTest, TheWatchedRunIsBitEqual) {
  Watch watch(recorder_, config::OnFault::kPause);
  go(*open(plan(), watch), watch);
  const std::string watched = base::read_text(root_ / "run" / std::string(train::kAdapterWeightsFile));
  fs::remove_all(root_ / "run");
  train::RunListener silent;
  train::begin_run(*train::open_run(plan(), silent), silent, stop_);
  EXPECT_EQ(base::read_text(root_ / "run" / std::string(train::kAdapterWeightsFile)), watched);
}

TEST_F(WatchTest, AFrozenTensorPausesTheRunAtTheThirdCheck) {
  Watch watch(recorder_, config::OnFault::kPause);
  std::unique_ptr<train::OpenedRun> run;
  run = open(plan(), watch, [&run](std::int64_t step) {
    run->adapter->tensors()[3].value.mutable_grad().zero_();
    return fine(step);
  });
  const std::string name = run->adapter->tensors()[3].name;
  const train::LoopResult result = go(*run, watch);
  EXPECT_TRUE(result.paused);
  EXPECT_EQ(result.step, 3);
  ASSERT_NE(recorder_.find("GRAD-02"), nullptr);
  EXPECT_EQ(recorder_.find("GRAD-02")->step, 3);
  expect_has(recorder_.find("GRAD-02")->verdict.evidence, name);
  EXPECT_EQ(train::checkpoint_steps(root_ / "run"), (std::vector<std::int64_t>{2, 3}));
  expect_has(explain(find_report(root_ / "run")), "GRAD-02");
  ASSERT_EQ(watch.failures().size(), 1);
}

// Found when nothing is left to pause: the run ends, its files are there, and it does not pass for healthy.
TEST_F(WatchTest, AFaultOfTheLastStepIsNotAHealthyEnd) {
  Watch watch(recorder_, config::OnFault::kPause);
  std::unique_ptr<train::OpenedRun> run;
  const auto frozen = [&run](std::int64_t step) {
    run->adapter->tensors()[3].value.mutable_grad().zero_();
    return fine(step);
  };
  run = open(plan({"--max_steps", "3"}), watch, frozen, 3);
  const train::LoopResult result = go(*run, watch);
  EXPECT_FALSE(result.interrupted);
  EXPECT_TRUE(result.paused);
  EXPECT_EQ(result.step, 3);
  EXPECT_TRUE(fs::exists(root_ / "run" / std::string(train::kAdapterWeightsFile)));
  const std::string said = explain(find_report(root_ / "run"));
  expect_has(said, "ended     after step 3 of 3");
  expect_has(said, "GRAD-02");
  EXPECT_EQ(said.find("continue  "), std::string::npos) << said;
}

TEST_F(WatchTest, WithWarnTheRunGoesOnAndAFaultIsToldOnce) {
  Watch watch(recorder_, config::OnFault::kWarn);
  std::unique_ptr<train::OpenedRun> run;
  run = open(plan(), watch, [&run](std::int64_t step) {
    run->adapter->tensors()[3].value.mutable_grad().zero_();
    return fine(step);
  });
  EXPECT_FALSE(go(*run, watch).interrupted);
  EXPECT_EQ(recorder_.told.size(), 1);
}

TEST_F(WatchTest, WithStopTheRunEndsBeforeTheStep) {
  Watch watch(recorder_, config::OnFault::kStop);
  std::unique_ptr<train::OpenedRun> run;
  run = open(plan(), watch, [&run](std::int64_t step) {
    run->adapter->tensors()[3].value.mutable_grad().zero_();
    return fine(step);
  });
  const std::string said = ended_with([&] { go(*run, watch); });
  expect_has(said, "expected a run without GRAD-02");
  expect_has(said, "the last healthy checkpoint is of step 2");
  expect_has(explain(find_report(root_ / "run")), "stopped   after step 3 of 8");
}

TEST_F(WatchTest, AResumedRunIsNotPausedWithoutNewEvidence) {
  const auto frozen = [](std::unique_ptr<train::OpenedRun>& run) {
    return [&run](std::int64_t step) {
      run->adapter->tensors()[3].value.mutable_grad().zero_();
      return fine(step);
    };
  };
  {
    Watch watch(recorder_, config::OnFault::kPause);
    std::unique_ptr<train::OpenedRun> run;
    run = open(plan(), watch, frozen(run));
    EXPECT_EQ(go(*run, watch).step, 3);
  }
  Watch watch(recorder_, config::OnFault::kPause);
  std::unique_ptr<train::OpenedRun> run;
  run = open(plan({"--resume_from_checkpoint", "true"}), watch, frozen(run));
  EXPECT_EQ(go(*run, watch).step, 6) << "three more checks";
}

// A fresh adapter's B is 0, and so is every gradient of A: no fault for as long as B stays there.
TEST_F(WatchTest, AZeroGradientOfAIsNoFaultWhileBIsZero) {
  Watch watch(recorder_, config::OnFault::kWarn);
  std::unique_ptr<train::OpenedRun> run;
  run = open(plan({"--learning_rate", "1e-60"}), watch, [&run](std::int64_t step) {
    for (const auto& tensor : run->adapter->tensors()) {
      if (tensor.name.find("lora_A") != std::string::npos) tensor.value.mutable_grad().zero_();
    }
    return fine(step);
  });
  go(*run, watch);
  EXPECT_EQ(recorder_.find("GRAD-02"), nullptr);
  EXPECT_NE(recorder_.find("GRAD-05"), nullptr) << "that B does not move is one";
}

TEST_F(WatchTest, WeightsThatHaveAGradientAndDoNotMove) {
  Watch watch(recorder_, config::OnFault::kWarn);
  const auto run = open(plan({"--learning_rate", "1e-12"}), watch, fine);
  run->adapter->flat().fill_(1);  // beside 1 an update of 1e-12 is nothing
  go(*run, watch);
  ASSERT_NE(recorder_.find("GRAD-05"), nullptr);
  EXPECT_EQ(recorder_.find("GRAD-05")->verdict.level, Level::kFail);
}

TEST_F(WatchTest, ANonFiniteGradientIsNamedByTensorLayerAndSample) {
  Watch watch(recorder_, config::OnFault::kWarn);
  std::unique_ptr<train::OpenedRun> run;
  run = open(plan(), watch, [&run](std::int64_t step) {
    if (step == 4)
      run->adapter->tensors()[0].value.mutable_grad().fill_(std::numeric_limits<double>::infinity());
    return fine(step);
  });
  static_cast<Scripted&>(*run->method).bad_sample = 2;
  const std::string said = ended_with([&] { go(*run, watch); });
  expect_has(said, "expected a run without NUM-02");
  const Reported* found = recorder_.find("NUM-02");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->step, 5);
  expect_has(found->verdict.evidence, "the backward met it first in " + run->adapter->tensors()[0].name);
  expect_has(found->verdict.evidence, "(layer 0; those above it, to 1, are finite)");
  expect_has(found->verdict.evidence, "of its 3 samples run alone, only line 2 gives one");
  EXPECT_EQ(train::checkpoint_steps(root_ / "run"), (std::vector<std::int64_t>{2, 4}))
      << "the step was not applied";
}

TEST_F(WatchTest, ANonFiniteWeightOfTheBaseIsNamed) {
  Watch watch(recorder_, config::OnFault::kWarn);
  const auto run = open(plan(), watch);
  const ops::Linear* up = run->model->layers()[1].linears()[5];
  up->weight.plain().select(0, 3).select(0, 5).fill_(std::numeric_limits<double>::quiet_NaN());
  ended_with([&] { go(*run, watch); });
  const Reported* found = recorder_.find("NUM-02");
  ASSERT_NE(found, nullptr);
  expect_has(found->verdict.evidence, "the base's " + up->name + ".weight holds 1 value that is not finite");
  expect_has(found->verdict.cause, "the model file");
}

// The run's own samples, one after another: SFT's hook.
TEST_F(WatchTest, OneSampleThatIsNotFinite) {
  Watch watch(recorder_, config::OnFault::kWarn);
  const auto run = open(plan({"--per_device_train_batch_size", "4"}), watch);
  std::vector<std::string> names;
  run->adapter->zero_gradient();
  (void)run->method->backward(0);
  const at::Tensor whole = run->adapter->flat_gradient().clone();
  EXPECT_GT(whole.abs().max().item<double>(), 0);
  run->adapter->zero_gradient();
  run->method->replay_samples(0, [&](const train::ReplayedSample& one) {
    names.push_back(one.name);
    EXPECT_GT(one.loss, 0);
    EXPECT_GT(run->adapter->flat_gradient().abs().max().item<double>(), 0);
    run->adapter->zero_gradient();
    return names.size() < 3;
  });
  ASSERT_EQ(names.size(), 3) << "and no more after that";
  expect_has(names[0], "line ");
  expect_has(names[0], "text.jsonl");
}

TEST_F(WatchTest, TheLastHealthyCheckpointOutlivesRotation) {
  Watch watch(recorder_, config::OnFault::kWarn);
  const auto run = open(
      plan({"--save_total_limit", "1", "--save_steps", "4", "--max_steps", "48"}), watch,
      [](std::int64_t step) { return train::StepLoss{.loss = step < 6 ? 2.0 : 40.0}; }, 48);
  go(*run, watch);
  ASSERT_NE(recorder_.find("NUM-08"), nullptr);
  EXPECT_EQ(recorder_.find("NUM-08")->verdict.level, Level::kFail);
  const auto steps = train::checkpoint_steps(root_ / "run");
  ASSERT_EQ(steps.size(), 2) << "the newest, and the last before the suspicion";
  EXPECT_EQ(steps.back(), 48);
  EXPECT_LT(steps.front(), recorder_.find("NUM-08")->step);
}

TEST_F(WatchTest, ARunThatWasKilledIsToldAtTheNextStart) {
  RunningState dead = running_here();
  dead.pid = 5'000'000;
  dead.step = 7;
  dead.total_steps = 8;
  dead.resident = 21'900'000'000;
  dead.free = 100'000'000;
  fs::create_directories(root_ / "run");
  {
    const RunningFile nowhere(root_ / "kept", dead);
  }  // a folder that is not there: no file, and no error
  {
    RunningFile file(root_ / "run", dead);
    fs::copy(root_ / "run" / std::string(train::kRunningFile), root_ / "copy");
  }
  fs::rename(root_ / "copy", root_ / "run" / std::string(train::kRunningFile));
  Watch watch(recorder_, config::OnFault::kPause);
  go(*open(plan(), watch), watch);
  ASSERT_NE(recorder_.find("MEM-02"), nullptr);
  expect_has(recorder_.find("MEM-02")->verdict.what, "killed at step 7 of 8");
}

// What a run leaves that is killed before its first checkpoint, and what the Python package wrote before its
// start.
TEST_F(WatchTest, ARunThatWasKilledEarlyStartsAgain) {
  const fs::path run = root_ / "run";
  const auto starts = [&](const std::map<std::string, std::string>& files) {
    fs::remove_all(run);
    for (const auto& [name, text] : files) {
      fs::create_directories((run / name).parent_path());
      base::write_file_atomic(run / name, text);
    }
    Watch watch(recorder_, config::OnFault::kPause);
    try {
      go(*open(plan({"--max_steps", "1"}), watch), watch);
    } catch (const base::UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::map<std::string, std::string> records = {{"metrics.jsonl", "{\"step\": 1}\n"},
                                                      {"rewards.log", "one, step 1\n"},
                                                      {"completions/completions_00001.jsonl", "{}\n"},
                                                      {"inputs/train.jsonl", "{\"text\": \"a\"}\n"},
                                                      {"inputs/tokenizer/tokenizer.json", "{}\n"},
                                                      {"inputs/adapter/adapter_config.json", "{}\n"}};
  const auto with = [&](const std::string& name, const std::string& text) {
    std::map<std::string, std::string> out = records;
    out[name] = text;
    return out;
  };
  const std::string running = R"({"format": "hone-running-1", "pid": 5000000, "step": 1, "total_steps": 8})";
  EXPECT_EQ(starts(with("plan.yaml", "# hone 1.0: sft\n")), "");
  EXPECT_EQ(starts(with("hone-running.json", running)), "");
  EXPECT_EQ(starts(with("hone-fault.json", "{\n  \"format\": \"hone-fault-1\"\n}\n")), "");
  EXPECT_EQ(
      starts({{"inputs/train.jsonl", "{}\n"}, {"hone-crash-7.json", R"({"format": "hone-crash-1", "co)"}}),
      "");
  EXPECT_EQ(starts({{"hone-running.json", ""}}), "") << "the machine lost its power";
  // Neither names nor a format of somebody else prove anything.
  expect_has(starts(records), "metrics.jsonl");
  expect_has(starts({{"hone-running.json", R"({"format": "mine"})"}}), "hone-running.json");
  expect_has(starts(with("hone-crash-7.json", R"({"format": "hone-crash-1"})")), "metrics.jsonl");
  expect_has(starts({{"hone-running.json", running}, {"adapter_config.json", "{}"}}), "adapter_config.json");
}

}  // namespace watch_test
}  // namespace hone::doctor
