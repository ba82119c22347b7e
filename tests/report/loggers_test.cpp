// Loggers with a stand-in `wandb` of our own: tests/parity/check_loggers.py has the real packages.
#include "report/loggers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/files/file.h"
#include "base/strings/lines.h"
#include "report/run_report.h"

namespace hone::report {
namespace loggers_test {

namespace fs = base::fs;
using base::Json;

// Writes each call as a line of $STAND_IN_LOG; $STAND_IN_DOES says what goes wrong.
constexpr const char* kStandIn = R"(
import json, os, sys, time
def said(*words):
    with open(os.environ["STAND_IN_LOG"], "a") as log:
        log.write(json.dumps(words) + "\n")
does = os.environ.get("STAND_IN_DOES", "")
class Settings:
    def __init__(self, **given): pass
class Table:
    def __init__(self, columns, data, **given): self.said = [columns, data]
class Run:
    url, name = "https://logger/run", None
    summary = {}
def init(project, name, config, settings, id=None, resume=None):
    if does == "raises": raise ConnectionError("no route\nto the logger")
    if does == "hangs": time.sleep(1000)
    Run.name, Run.id = name, id or f"id{len(open(os.environ['STAND_IN_LOG']).readlines()) if os.path.exists(os.environ['STAND_IN_LOG']) else 0}"
    said("init", project, name, id, resume, config, os.environ.get("WANDB_GROUP"))
    return Run
def define_metric(*words, **given): pass
def log(values):
    if does == "dies": os._exit(7)
    said("log", {name: getattr(value, "said", value) for name, value in values.items()})
def finish(exit_code): said("finish", exit_code, Run.summary)
)";

class LoggersTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "packages/wandb");
    fs::create_directories(out_);
    std::ofstream(folder_ / "packages/wandb/__init__.py") << kStandIn;
    options_.names = {"wandb"};
    options_.variables = {{"PYTHONPATH", (folder_ / "packages").string()}, {"STAND_IN_LOG", log_.string()}};
    options_.seconds = 20;
    options_.settings = {{"run_name", "first"}, {"project", "tests"},           {"trackio_space_id", nullptr},
                         {"private", nullptr},  {"trackio_bucket_id", nullptr}, {"config", {{"lora_r", 4}}},
                         {"tables", true},      {"unique_prompts", false}};
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A run of the steps after `first`, each with the loss that `loss` gives, and an evaluation at
  // step 3; what it printed.
  template <typename Loss>
  std::string run(std::int64_t first, std::int64_t last, const Loss& loss, bool completions = false) {
    std::ostringstream out;
    {
      RunReport report(out, {}, /*tensorboard=*/false);
      report.add_follower(std::make_unique<Loggers>(options_));
      train::StartFacts start;
      start.output_dir = out_.string();
      start.first_step = first;
      report.on_start(start);
      report.start_followers();
      const auto sample = [&](std::int64_t step) {
        if (samples_) report.on_samples({.step = step, .completions = {{.prompt = "p", .completion = "c"}}});
      };
      if (first == 0) sample(0);
      const auto begun = base::Clock::now();
      for (std::int64_t step = first + 1; step <= last; ++step) {
        if (completions) {
          report.on_rollout({.step = step,
                             .reward_names = {"right"},
                             .completions = {{.prompt = "p", .completion = "c", .rewards = {1}}}});
        }
        report.on_step({.step = step}, last);
        report.on_log({.step = step, .epoch = 0.5, .values = {{"loss", loss(step)}}});
        if (step == 3)
          report.on_log(
              {.step = 3, .epoch = 1, .values = {{"eval_loss", 0.25}, {"eval_runtime", seconds_++}}});
        sample(step);
      }
      report.on_log(
          {.step = last, .epoch = 1, .values = {{"train_runtime", seconds_++}, {"train_loss", 0.5}}});
      in_run_ = base::seconds_since(begun);
      report.on_finish(out_.string(), /*interrupted=*/false, last);
    }
    return out.str();
  }
  std::vector<Json> calls(const std::string& kind) const {
    std::vector<Json> found;
    if (!fs::exists(log_)) return found;
    for (const std::string& line : base::lines_of(base::read_text(log_))) {
      Json call = Json::parse(line);
      if (call[0] == kind) found.push_back(std::move(call));
    }
    return found;
  }
  void does(const char* what) { options_.variables.emplace_back("STAND_IN_DOES", what); }

  fs::path folder_ = fs::temp_directory_path() / ("hone_loggers_" + std::to_string(getpid()));
  fs::path out_ = folder_ / "out", log_ = folder_ / "calls.jsonl";
  LoggerOptions options_;
  double seconds_ = 3;  // counts up: no two ends took the same time
  double in_run_ = 0;
  bool samples_ = false;  // of one prompt, before step 1 and after each
};

double halves(std::int64_t step) {
  return 1.0 / static_cast<double>(step);
}

TEST_F(LoggersTest, SamplesAreTables) {
  samples_ = true;
  run(0, 2, halves);
  options_.settings["tables"] = false;
  run(1, 3, halves);  // what was sent is not sent again
  std::vector<Json> tables;
  for (const Json& call : calls("log")) {
    if (call[1].contains("samples")) tables.push_back(call[1]);
  }
  ASSERT_EQ(tables.size(), 4U);
  for (std::size_t step = 0; step < 4; ++step) {
    EXPECT_EQ(tables[step]["train/global_step"], step);
    EXPECT_EQ(tables[step]["samples"], Json({{"step", "index", "prompt", "completion", "truncated", "tokens"},
                                             {{step, 0, "p", "c", false, 0}}}));
  }
}

TEST_F(LoggersTest, EveryLineIsSentUnderTransformersNames) {
  options_.variables.emplace_back("WANDB_GROUP", "g");
  const std::string said = run(0, 3, halves, /*completions=*/true);
  EXPECT_NE(said.find("logger    wandb: first (https://logger/run)\n"), std::string::npos) << said;
  ASSERT_EQ(calls("init").size(), 1U) << said;
  EXPECT_EQ(calls("init")[0], Json({"init", "tests", "first", nullptr, nullptr, {{"lora_r", 4}}, "g"}));
  const std::vector<Json> logs = calls("log");
  ASSERT_EQ(logs.size(), 7U);
  EXPECT_EQ(logs[0][1]["completions"],
            Json({{"step", "prompt", "completion", "right", "advantage", "truncated"},
                  {{1, "p", "c", 1.0, 0.0, false}}}));
  EXPECT_EQ(logs[1][1], Json({{"train/epoch", 0.5}, {"train/loss", 1.0}, {"train/global_step", 1}}));
  EXPECT_EQ(
      logs[6][1],
      Json({{"train/epoch", 1.0}, {"eval/loss", 0.25}, {"eval/runtime", 3.0}, {"train/global_step", 3}}));
  ASSERT_EQ(calls("finish").size(), 1U);
  EXPECT_EQ(calls("finish")[0], Json({"finish", 0, {{"train_runtime", 4.0}, {"train_loss", 0.5}}}));
}

// A resumed run is the same run of the logger, which is not sent again what the run repeats.
TEST_F(LoggersTest, AResumedRunGoesOnAndRepeatsNothing) {
  run(0, 4, halves);
  const std::size_t before = calls("log").size();
  run(2, 6, halves);  // 3 and 4 come again
  const std::vector<Json> begun = calls("init");
  ASSERT_EQ(begun.size(), 2U);
  EXPECT_EQ(begun[1][3], "id0");
  EXPECT_EQ(begun[1][4], "allow");
  std::vector<Json> losses;
  for (const Json& call : calls("log")) {
    if (call[1].contains("train/loss")) losses.push_back(call[1]["train/global_step"]);
  }
  EXPECT_EQ(losses, (std::vector<Json>{1, 2, 3, 4, 5, 6}));
  EXPECT_GT(calls("log").size(), before);
}

// With other numbers it is another run: it gets its own, with all that is true of it.
TEST_F(LoggersTest, ARunThatTurnsOutOtherwiseIsAnotherRun) {
  run(0, 4, halves);
  run(2, 4, [](std::int64_t step) { return step > 2 ? 7.0 : halves(step); });
  const std::vector<Json> begun = calls("init");
  ASSERT_EQ(begun.size(), 3U);
  EXPECT_EQ(begun[2][2], "first from step 3");
  EXPECT_EQ(begun[2][3], nullptr);
  std::vector<Json> losses;
  for (const Json& call : calls("log")) {
    if (call[1].contains("train/loss")) losses.push_back(call[1]["train/loss"]);
  }
  EXPECT_EQ(losses, (std::vector<Json>{1.0, 0.5, 1.0 / 3, 0.25, 1.0, 0.5, 7.0, 7.0}));
}

TEST_F(LoggersTest, AFreshRunForgetsAnEarlierOne) {
  run(0, 2, halves);
  run(0, 2, halves);
  ASSERT_EQ(calls("init").size(), 2U);
  EXPECT_EQ(calls("init")[1][3], nullptr);
  EXPECT_EQ(calls("log").size(), 4U);
}

TEST_F(LoggersTest, WhatGoesWrongIsOneNoteAndTheRunGoesOn) {
  does("raises");
  const std::string said = run(0, 3, halves);
  const std::string note =
      "note      report_to: wandb: ConnectionError: no route to the logger; the run goes on; `hone log " +
      out_.string() + " --to wandb` sends it later\n";
  EXPECT_NE(said.find(note), std::string::npos) << said;
  EXPECT_EQ(said.find("report_to", said.find("report_to") + 1), std::string::npos) << said;
  EXPECT_NE(said.find("done      adapter in"), std::string::npos);
}

TEST_F(LoggersTest, AProcessThatDiesIsOneNote) {
  does("dies");
  const std::string said = run(0, 3, halves);
  EXPECT_NE(said.find("report_to: wandb: its Python ended with code 7; the run goes on"), std::string::npos)
      << said;
}

TEST_F(LoggersTest, APackageThatHangsSlowsNothingAndEndsAtTheLimit) {
  does("hangs");
  options_.seconds = 1;
  const auto begun = base::Clock::now();
  const std::string said = run(0, 3, halves);
  EXPECT_NE(said.find("report_to: wandb: not done 1 s after the run's end; `hone log "), std::string::npos)
      << said;
  EXPECT_LT(in_run_, 0.5);  // 3 steps beside a process that answers nothing
  EXPECT_LT(base::seconds_since(begun), 5);
}

TEST_F(LoggersTest, AMissingPackageIsNamedUnlessAllThatAreInstalledWereAskedFor) {
  options_.names = {"swanlab"};
  std::ofstream(folder_ / "packages/sitecustomize.py") << "import sys\nsys.modules['swanlab'] = None\n";
  options_.variables[0].second = (folder_ / "nothing").string();
  std::string said = run(0, 2, halves);
  EXPECT_NE(said.find("`pip install swanlab` adds it"), std::string::npos) << said;
  options_.only_installed = true;
  said = run(0, 2, halves);
  EXPECT_EQ(said.find("swanlab"), std::string::npos) << said;
}

TEST_F(LoggersTest, AnInterpreterThatIsNotThereIsANote) {
  options_.python = "python-of-nobody";
  EXPECT_NE(run(0, 2, halves).find("its Python 'python-of-nobody' does not start: No such file"),
            std::string::npos);
}

// hone log
TEST_F(LoggersTest, ARunIsSentLaterAndOnlyOnce) {
  LoggerOptions none = options_;
  options_.python = "python-of-nobody";
  run(0, 3, halves, /*completions=*/true);
  const std::atomic<bool> stop = false;
  LoggerResult result = send_run(out_.string(), none, stop);
  EXPECT_EQ(result.sent, 5);
  EXPECT_EQ(result.known, 0);
  EXPECT_EQ(result.run, "first (https://logger/run)");
  EXPECT_EQ(calls("log").size(), 7U);
  result = send_run(out_.string(), none, stop);
  EXPECT_EQ(result.sent, 0);
  EXPECT_EQ(result.known, 5);
  EXPECT_EQ(calls("init").size(), 1U);  // nothing to send: no run is opened
  none.variables.emplace_back("STAND_IN_DOES", "raises");
  fs::remove(out_ / "hone-logger-wandb.jsonl");
  try {
    send_run(out_.string(), none, stop);
    FAIL() << "a failure is an error here";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("ConnectionError: no route to the logger"), std::string::npos);
  }
}

}  // namespace loggers_test
}  // namespace hone::report
