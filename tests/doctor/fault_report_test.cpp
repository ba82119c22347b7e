// What is left of a run that ended before its end, and what is said of it.
#include "doctor/fault_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "base/error.h"
#include "doctor/crash_text.h"
#include "doctor/running_file.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {
namespace fault_report_test {

namespace fs = base::fs;

class FaultReportTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_ = fs::temp_directory_path() / ("hone_fault_report_" + std::to_string(getpid()));
};

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

constexpr CrashFacts kCrash = {.signal = SIGFPE,
                               .code = FPE_INTDIV,
                               .pid = 17,
                               .op = "gemm",
                               .dtype = "bf16",
                               .m = 32,
                               .n = 960,
                               .k = 576,
                               .layer = 4,
                               .step = 3,
                               .checkpoint = 2};

TEST(CrashText, SaysWhatWhereAndWhatItIsNot) {
  FixedText out;
  write_crash_message(out, kCrash, "out", "out/hone-crash-17.json");
  const std::string text(out.view());
  expect_has(text, "hone: CRASH NUM-07  signal 8 (SIGFPE, integer division by zero) at step 3\n");
  expect_has(text, "  where:  gemm bf16 m=32 n=960 k=576, layer 4\n");
  expect_has(text, "  not:    learning rate, warm-up, clipping");
  expect_has(text, "out/checkpoint-2 is complete: continue with --resume_from_checkpoint true");
  expect_has(text, "report: out/hone-crash-17.json");
}

TEST(CrashText, OtherSignalsHaveNoClassOfTheirOwn) {
  FixedText out;
  write_crash_message(out, {.signal = SIGSEGV, .op = "attention", .dtype = "fp32", .m = 7, .n = 4, .k = 64},
                      "out", "");
  const std::string text(out.view());
  expect_has(text, "CRASH signal 11 (SIGSEGV");
  expect_has(text, "report this with your command and the file of `hone bug-report out`");
  expect_has(text, "attention fp32 tokens=7 heads=4 head_dim=64\n");
  EXPECT_EQ(text.find("NUM-07"), std::string::npos);
  EXPECT_EQ(text.find("checkpoint"), std::string::npos) << "it had not begun";
}

TEST(CrashText, TheReportParsesAndIsExplained) {
  FixedText out;
  crash_json(out, kCrash, R"("a \"folder\"")");
  const base::Json json = base::Json::parse(out.view());
  EXPECT_EQ(json.at("format"), kCrashFormat);
  EXPECT_EQ(json.at("code"), "NUM-07");
  EXPECT_EQ(json.at("n"), 960);
  EXPECT_EQ(json.at("output_dir"), "a \"folder\"");
  const std::string text = explain_crash(json);
  expect_has(text, "gemm bf16 m=32 n=960 k=576, layer 4");
  expect_has(text, "a \"folder\"/checkpoint-2");
}

TEST(CrashText, NumbersAndTheEdgeOfItsRoom) {
  FixedText out;
  out << std::int64_t{0} << " " << std::int64_t{-12} << " " << std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(out.view(), "0 -12 -9223372036854775808");
  for (int i = 0; i < 1000; ++i) out << std::string_view("0123456789");
  EXPECT_LT(out.view().size(), 4096);
  EXPECT_EQ(std::string(out.c_str()).size(), out.view().size());
}

TEST_F(FaultReportTest, ARunningFileIsThereWhileItRuns) {
  RunningState state = running_here();
  state.total_steps = 100;
  {
    RunningFile file(folder_, state);
    state.step = 12;
    state.checkpoint = 10;
    state.resident = 21'900'000'000;
    state.free = 400'000'000;
    file.update(state);
    const auto read = read_running(folder_);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->step, 12);
    EXPECT_EQ(read->checkpoint, 10);
    EXPECT_EQ(read->resident, state.resident);
    EXPECT_EQ(fate_of(*read), Fate::kAlive);
    expect_has(explain(find_report(folder_)), "the run is still going, at step 12 of 100");
  }
  EXPECT_FALSE(read_running(folder_).has_value());
  EXPECT_TRUE(find_report(folder_).empty());
}

// A process that nobody has: numbers end at 2^22.
constexpr std::int64_t kNobody = 5'000'000;

TEST_F(FaultReportTest, WhatBecameOfAProcessThatIsGone) {
  RunningState state = running_here();
  state.pid = kNobody;
  state.step = 12;
  state.total_steps = 100;
  state.resident = 21'900'000'000;
  state.free = 400'000'000;
  EXPECT_EQ(fate_of(state), Fate::kMemory);
  expect_has(describe_fate(state, Fate::kMemory),
             "killed at step 12 of 100 (memory then: 21.90 GB used, 0.40 GB free): probably the kernel's "
             "out-of-memory");
  state.free = 20'000'000'000;
  EXPECT_EQ(fate_of(state), Fate::kKilled);
  state.boot = "another";
  EXPECT_EQ(fate_of(state), Fate::kRestarted);
}

TEST_F(FaultReportTest, APauseIsExplainedWithTheWayBack) {
  write_fault_report(folder_, {.kind = "pause",
                               .step = 30,
                               .total_steps = 100,
                               .checkpoint = 30,
                               .healthy_checkpoint = 20,
                               .verdicts = {{.code = "NUM-08",
                                             .level = base::Level::kFail,
                                             .what = "the loss rose",
                                             .evidence = "2 -> 16",
                                             .cause = "learning rate",
                                             .fix = "lower learning_rate"}}});
  const std::string text = explain(find_report(folder_));
  expect_has(text, "paused    after step 30 of 100");
  expect_has(text, "NUM-08  the loss rose");
  expect_has(text, "lower learning_rate");
  expect_has(text, "--resume_from_checkpoint " + (folder_ / "checkpoint-20").string());
}

TEST_F(FaultReportTest, AnythingElseIsNoReport) {
  base::write_file_atomic(folder_ / "hone-crash-1.json", "{}");
  EXPECT_THROW(explain(folder_ / "hone-crash-1.json"), base::UserError);
  base::write_file_atomic(folder_ / std::string(train::kRunningFile), "rubbish");
  EXPECT_FALSE(read_running(folder_).has_value());
  EXPECT_THROW(explain(folder_ / std::string(train::kRunningFile)), base::UserError);
  // Copying what is nested so deep would overflow the stack.
  base::write_file_atomic(folder_ / std::string(train::kFaultFile),
                          R"({"format": "hone-fault-1", "verdicts": )" + std::string(1'000'000, '[') +
                              std::string(1'000'000, ']') + "}");
  EXPECT_THROW(explain(folder_ / std::string(train::kFaultFile)), base::UserError);
}

}  // namespace fault_report_test
}  // namespace hone::doctor
