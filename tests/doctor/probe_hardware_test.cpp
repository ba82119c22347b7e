// Probe P11: kernels beside libtorch, and children that die, hang, err or are right.
#include <gtest/gtest.h>

#include <fstream>

#include "doctor/probes/machine/hardware_shapes.h"
#include "doctor/probes/machine/kernel_child.h"
#include "probe_runs.h"

namespace hone::doctor {
namespace probe_hardware_test {

using base::Level;
using std::chrono::milliseconds;

constexpr milliseconds kPatient{60000};

class HardwareProbeTest : public ProbeTest {
 protected:
  // A program in hone's place.
  fs::path script(const std::string& body) {
    const fs::path path = root_ / ("child" + std::to_string(scripts_++));
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  // Answers for `right` shapes, then does `then` with the next.
  fs::path child(int right, const std::string& then) {
    std::string body = "cat > " + (root_ / "asked").string() + "\n";
    for (int i = 0; i < right; ++i) {
      const std::string n = std::to_string(i);
      body += "echo '{\"begin\":" + n + "}'\necho '{\"done\":" + n + ",\"error\":0.001,\"bound\":0.03}'\n";
    }
    return script(body + (then.empty() ? "" : "echo '{\"begin\":" + std::to_string(right) + "}'\n" + then));
  }
  static std::vector<KernelShape> shapes(int count) {
    std::vector<KernelShape> out;
    for (int i = 0; i < count; ++i)
      out.push_back({.kind = "gemm", .bf16 = true, .m = 8 + i, .in = 16, .out = 32, .rank = 4});
    return out;
  }
  int scripts_ = 0;
};

TEST_F(HardwareProbeTest, HonesKernelsAreRightOnThisMachine) {
  for (const Words& more : {Words{"--bf16", "false"}, Words{"--bf16", "true"}, Words{"--layer_form", "plain"},
                            Words{"--load_in_4bit", "true"}, Words{"--load_in_8bit", "true"}}) {
    for (const bool samples : {false, true}) {
      const std::string name = more.front() + more.back() + (samples ? "grpo" : "sft");
      const std::vector<KernelShape> found =
          kernel_shapes(*open(samples ? grpo(name, more) : sft(name, more)));
      EXPECT_GE(found.size(), samples ? 10U : 6U);
      EXPECT_EQ(found.front().quantized, more.front() == "--load_in_4bit"   ? "4-bit nf4"
                                         : more.front() == "--load_in_8bit" ? "8-bit"
                                                                            : "");
      for (const KernelShape& shape : found) {
        const KernelError error = check_kernel(KernelShape::from_json(shape.to_json()));
        EXPECT_LE(error.error, error.bound) << shape.describe();
        EXPECT_TRUE(error.error > 0 || !shape.bf16) << shape.describe();
      }
    }
  }
}

TEST_F(HardwareProbeTest, APairsShapes) {
  const std::vector<KernelShape> found = kernel_shapes(*open(dpo("run")));
  EXPECT_GE(found.size(), 6U);
  EXPECT_GT(found.back().prefix, 0);
  for (const KernelShape& shape : found) {
    EXPECT_NE(shape.kind, "decode");
    const KernelError error = check_kernel(shape);
    EXPECT_LE(error.error, error.bound) << shape.describe();
  }
}

TEST_F(HardwareProbeTest, ARightChildIsOkAndRememberedByShapeAndMachine) {
  const ExamOptions options = {.program = child(2, ""), .cache_dir = root_ / "cache"};
  EXPECT_VERDICT(examine_hardware(shapes(2), 1, options, kPatient), "NUM-07", Level::kOk, "0 tested earlier");
  fs::remove(root_ / "asked");
  EXPECT_VERDICT(examine_hardware(shapes(2), 1, options, kPatient), "NUM-07", Level::kOk, "2 tested earlier");
  EXPECT_FALSE(fs::exists(root_ / "asked")) << "no child is needed";
  // Other threads, another build: it is asked again.
  EXPECT_VERDICT(examine_hardware(shapes(2), 2, options, kPatient), "NUM-07", Level::kOk, "0 tested earlier");
  const ExamOptions other = {.program = child(2, "exit 0"), .cache_dir = root_ / "cache"};
  EXPECT_VERDICT(examine_hardware(shapes(2), 1, other, kPatient), "NUM-07", Level::kOk, "0 tested earlier");
  // A file that cannot be read is none.
  for (const auto& entry : fs::directory_iterator(root_ / "cache"))
    base::write_file_atomic(entry.path(), "{\"right\": [");
  EXPECT_VERDICT(examine_hardware(shapes(2), 1, options, kPatient), "NUM-07", Level::kOk, "0 tested earlier");
}

TEST_F(HardwareProbeTest, EverySignalIsNamedWithItsShape) {
  for (const std::string signal : {"FPE", "SEGV", "ILL", "ABRT"}) {
    const ExamOptions options = {.program = child(1, "kill -" + signal + " $$"),
                                 .cache_dir = root_ / "cache"};
    const Verdicts found = examine_hardware(shapes(2), 1, options, kPatient);
    EXPECT_VERDICT(found, "NUM-07", Level::kFail,
                   "bf16 matrix product crashes this machine (SIG" + signal + ")");
    EXPECT_VERDICT(found, "NUM-07", Level::kFail,
                   "gemm bf16 [9 x 16] x [16 x 32], rank 4: killed by SIG" + signal);
    EXPECT_VERDICT(found, "NUM-07", Level::kFail, "fp32, same shape: ok");  // this child is right once
    EXPECT_NE(verdict_of(found, "NUM-07").fix.find("layer_form: plain, or bf16: false"), std::string::npos);
  }
}

TEST_F(HardwareProbeTest, AChildThatHangsIsKilled) {
  const ExamOptions options = {.program = child(0, "exec sleep 600"), .cache_dir = {}};
  const Verdicts found = examine_hardware(shapes(2), 1, options, milliseconds(1000));
  EXPECT_VERDICT(found, "NUM-07", Level::kFail, "no answer within 1 s");
}

// The second child of these answers its first shape: a busy machine, or the out-of-memory killer, is no kernel.
TEST_F(HardwareProbeTest, WhatAnotherTryAnswersIsNoFault) {
  for (const char* const end : {"exec sleep 600", "kill -KILL $$"}) {
    const ExamOptions options = {.program = child(1, end), .cache_dir = {}};
    const Verdicts found = examine_hardware(shapes(2), 1, options, milliseconds(3000));
    for (const base::Verdict& one : found) EXPECT_NE(one.level, Level::kFail) << end << ": " << one.what;
  }
}

TEST_F(HardwareProbeTest, WrongNumbersAndNanAreAnotherClass) {
  const std::string rest = "echo '{\"done\":1,\"error\":0.5,\"bound\":0.03}'";
  EXPECT_VERDICT(examine_hardware(shapes(2), 1, {.program = child(1, rest)}, kPatient), "NUM-04",
                 Level::kFail, "off by 0.5 of the largest value");
  const std::string nan = "echo '{\"done\":1,\"error\":null,\"bound\":0.03}'";
  EXPECT_VERDICT(examine_hardware(shapes(2), 1, {.program = child(1, nan)}, kPatient), "NUM-04", Level::kFail,
                 "not finite");
}

TEST_F(HardwareProbeTest, AChildThatCannotRunIsAWarning) {
  EXPECT_VERDICT(examine_hardware(shapes(1), 1, {.program = root_ / "absent"}, kPatient), "NUM-07",
                 Level::kWarn, "does not start");
  EXPECT_VERDICT(examine_hardware(shapes(1), 1, {.program = script("exit 2")}, kPatient), "NUM-07",
                 Level::kWarn, "status 2");
  EXPECT_VERDICT(examine_hardware(shapes(1), 1, {}, kPatient), "NUM-07", Level::kNote, "not tested");
}

TEST_F(HardwareProbeTest, AfterFourFaultsTheRestIsNotTried) {
  const ExamOptions options = {.program = child(0, "kill -FPE $$")};
  const Verdicts found = examine_hardware(shapes(6), 1, options, kPatient);
  EXPECT_EQ(found.size(), 4U) << describe(found);
  EXPECT_NE(found.back().evidence.find("2 of 6 kernel shapes were not tested"), std::string::npos);
}

TEST(KernelChild, LinesAndEnds) {
  std::vector<std::string> lines;
  const ChildEnd end = run_child("/bin/sh", {"-c", "read x; echo \"got $x\"; echo two; exit 3"}, "one\n",
                                 kPatient, [&](const std::string& line) { lines.push_back(line); });
  EXPECT_EQ(lines, (std::vector<std::string>{"got one", "two"}));
  EXPECT_EQ(end.status, 3);
  EXPECT_EQ(end.signal, 0);
  // One that reads nothing and is gone raises no SIGPIPE here.
  EXPECT_EQ(
      run_child("/bin/sh", {"-c", "exit 0"}, std::string(1 << 20, 'x'), kPatient, [](const std::string&) {})
          .status,
      0);
}

}  // namespace probe_hardware_test
}  // namespace hone::doctor
