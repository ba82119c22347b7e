#include "report/terminal/progress_line.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/files/file.h"
#include "report/run_report.h"
#include "report/terminal/terminal.h"

namespace hone::report {
namespace progress_line_test {

train::StepFacts facts(std::int64_t step) {
  train::StepFacts out;
  out.step = step;
  out.epoch = 0.5;
  out.loss = 1.23456;
  out.grad_norm = 0.8121;
  out.learning_rate = 2e-4;
  out.metrics = {{"mean_token_accuracy", 0.5}};
  out.tokens_this_step = 930;
  out.seconds = 1;
  return out;
}

TEST(ProgressLine, HoldsStepLossNormRateAndTimeLeft) {
  ProgressLine line({});
  EXPECT_EQ(
      line.text(facts(15), 80),
      "step 15/80  epoch 0.50  loss 1.2346  grad 0.812  lr 2.00e-04  acc 0.500  930 tok/s  left 1 min 05 s");
}

TEST(ProgressLine, OfDistillationHasItsEntropyAndNoAccuracy) {
  train::StepFacts of_distillation = facts(15);
  of_distillation.metrics = {{"entropy", 2.25}};
  const std::string text = ProgressLine({}).text(of_distillation, 80);
  EXPECT_NE(text.find("  entropy 2.250  "), std::string::npos) << text;
  EXPECT_EQ(text.find("acc"), std::string::npos) << text;
}

TEST(HumanForms, AreReadable) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1000), "1,000");
  EXPECT_EQ(human_count(-1234567), "-1,234,567");
  EXPECT_EQ(human_bytes(999), "999 bytes");
  EXPECT_EQ(human_bytes(19537920), "19.5 MB");
  EXPECT_EQ(human_seconds(41.2), "41 s");
  EXPECT_EQ(human_seconds(192), "3 min 12 s");
  EXPECT_EQ(human_seconds(7500), "2 h 05 min");
}

class RunReportTest : public testing::Test {
 protected:
  void SetUp() override { base::fs::create_directories(folder_); }
  void TearDown() override { base::fs::remove_all(folder_); }
  base::fs::path folder_ = base::fs::temp_directory_path() / ("hone_report_" + std::to_string(getpid()));
};

TEST_F(RunReportTest, ALogGetsOneLineALoggingStepAndATerminalOneLineThatRewritesItself) {
  for (const bool interactive : {false, true}) {
    std::ostringstream out;
    RunReport report(out, {.interactive = interactive, .color = false}, false);
    train::StartFacts start;
    start.output_dir = folder_.string();
    report.on_start(start);
    out.str("");
    report.on_step(facts(1), 2);
    report.on_step(facts(2), 2);
    report.on_log({.step = 2, .epoch = 0.5, .values = {{"loss", 1.0}}});
    report.on_finish(folder_.string(), false, 2);
    const std::string text = out.str();
    if (interactive) {
      EXPECT_EQ(text.find("\r\x1b[Kstep 1/2"), 0U) << text;
      EXPECT_NE(text.find("\r\x1b[Kstep 2/2"), std::string::npos) << text;
    } else {
      EXPECT_EQ(text.find("step 1/2"), std::string::npos) << text;
      EXPECT_EQ(text.find("step 2/2"), 0U) << text;
      EXPECT_EQ(text.find('\r'), std::string::npos);
    }
    EXPECT_NE(text.find("\ndone      adapter in " + folder_.string() + "\n"), std::string::npos) << text;
  }
}

TEST_F(RunReportTest, HoldsThePeakAgainstThePlanAndKeepsItOutOfTheMetrics) {
  std::ostringstream out;
  RunReport report(out, {}, false);
  train::StartFacts start;
  start.output_dir = folder_.string();
  report.on_start(start);
  out.str("");
  report.on_memory({.step = 1, .peak = 2'310'000'000, .planned = 2'400'000'000});
  EXPECT_EQ(out.str(), "memory    peak 2.31 GB after step 1, planned 2.40 GB\n");
  EXPECT_EQ(base::read_text(folder_ / "metrics.jsonl"), "");
  out.str("");
  report.on_memory({.step = 9, .peak = 2'630'000'000, .planned = 2'400'000'000, .at_end = true});
  EXPECT_EQ(out.str(), "memory    peak 2.63 GB, planned 2.40 GB\n") << "within 10 %";
  EXPECT_EQ(base::read_text(folder_ / "metrics.jsonl"), "") << "which repeats bit for bit";
  out.str("");
  report.on_memory({.step = 9, .peak = 2'650'000'000, .planned = 2'400'000'000, .at_end = true});
  EXPECT_NE(out.str().find("\nwarning   the peak of 2.65 GB is more than 10 % above the planned 2.40 GB"),
            std::string::npos)
      << out.str();
  out.str("");
  report.on_memory({.step = 10, .peak = 2'700'000'000, .planned = 2'400'000'000, .at_end = true});
  EXPECT_EQ(out.str(), "memory    peak 2.70 GB, planned 2.40 GB\n") << "told once";
}

TEST_F(RunReportTest, AFewMegabytesAboveAPlanAreNoWarning) {
  std::ostringstream out;
  RunReport report(out, {}, false);
  report.on_memory({.step = 1, .peak = 290'000'000, .planned = 200'000'000});
  EXPECT_EQ(out.str(), "memory    peak 0.29 GB after step 1, planned 0.20 GB\n");
}

TEST_F(RunReportTest, AStoppedRunSaysHowToGoOn) {
  std::ostringstream out;
  RunReport report(out, {}, false);
  report.on_finish(folder_.string(), true, 7);
  EXPECT_EQ(out.str(), "stopped   after step 7, nothing lost; continue with --resume_from_checkpoint true\n");
}

}  // namespace progress_line_test
}  // namespace hone::report
