// Proof before trust: a run is refused before step 1 where the device computes other numbers than the CPU, and the operator
// is named.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "doctor/examiner.h"
#include "doctor/probes/machine/device_machine.h"
#include "doctor/probes/machine/device_pass.h"
#include "standin/run_cases.h"
#include "standin/tiny_runs.h"
#include "standin/wrong_table.h"
#include "train/opening/open_run.h"

namespace hone::standin {
namespace proof_test {

namespace fs = base::fs;

class Proof : public testing::Test {
 protected:
  Proof() { use(""); }
  ~Proof() override {
    unsetenv("HONE_STANDIN_WRONG");
    ops::backend::register_operators(device().type(), nullptr);
    fs::remove_all(root_);
  }
  // Here and in the child: the table of GPUs, in which `op` is wrong.
  void use(const std::string& op) {
    table_ = table_with_wrong(op);
    ops::backend::register_operators(device().type(), &table_);
    setenv("HONE_STANDIN_WRONG", op.c_str(), 1);
  }
  std::unique_ptr<train::OpenedRun> open(const std::string& on = kName, bool bf16 = false) {
    const Case one = {
        .name = "proof", .data = "sft/text.jsonl", .words = {"--per_device_train_batch_size", "2"}};
    config::Plan plan = tiny_plan(config::Method::kSft, on, root_ / on, options_of(one));
    if (bf16) plan.precision = config::Precision::kAutocast;
    return train::open_run(plan, silent_);
  }
  static doctor::ExamOptions options() {
    return {.program = fs::path(HONE_BUILD_DIR) / "tests" / "hone_on_standin"};
  }
  static const doctor::ExamPart* part(const doctor::Examination& found, const std::string& name) {
    for (const doctor::ExamPart& one : found.parts)
      if (one.name == name) return &one;
    return nullptr;
  }

  ops::backend::Operators table_;
  train::RunListener silent_;
  fs::path root_ = fs::temp_directory_path() / ("hone_standin_proof_" + std::to_string(getpid()));
};

TEST_F(Proof, ARightDeviceIsTrusted) {
  for (const bool bf16 : {false, true}) {
    const auto run = open(kName, bf16);
    const doctor::Examination found = doctor::examine(*run, options());
    for (const char* const name : {"hardware", "device"}) {
      const doctor::ExamPart* const one = part(found, name);
      ASSERT_NE(one, nullptr) << name;
      ASSERT_EQ(one->verdicts.size(), 1U) << name;
      EXPECT_EQ(one->verdicts[0].level, base::Level::kOk)
          << one->verdicts[0].what << one->verdicts[0].evidence;
    }
    EXPECT_NE(part(found, "device")->verdicts[0].what.find("standin:0 computes the CPU's loss and gradients"),
              std::string::npos)
        << part(found, "device")->verdicts[0].what;
    EXPECT_FALSE(found.failed());
  }
}

TEST_F(Proof, TheCpuIsComparedWithNothing) {
  EXPECT_EQ(part(doctor::examine(*open("cpu"), {}), "device"), nullptr);
}

TEST_F(Proof, AWrongOperatorIsNamedWithBothValuesAndTheRunIsRefused) {
  use("swiglu");
  const auto run = open();
  doctor::Examiner examiner(options(), silent_);
  try {
    examiner.before_first_step(*run);
    FAIL() << "not refused";
  } catch (const base::UserError& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("swiglu: standin:0 computes other numbers than the CPU"), std::string::npos) << said;
  }
  const doctor::Examination found = doctor::examine(*run, options());
  const base::Verdict& one = part(found, "device")->verdicts.at(0);
  EXPECT_EQ(one.code, "NUM-04");
  EXPECT_EQ(one.level, base::Level::kFail);
  for (const char* const part_of :
       {" on standin:0 and ", " on the CPU (off by ", "without swiglu of the device they agree",
        "2 of 2 layers of width 64, vocabulary 384"})
    EXPECT_NE(one.evidence.find(part_of), std::string::npos) << one.evidence;
  EXPECT_EQ(part(found, "gradient"), nullptr) << "nothing else runs the model";
}

TEST_F(Proof, AWrongProductIsNamedWithItsShapeByTheChild) {
  use("gemms");
  const auto run = open(kName, /*bf16=*/true);
  const doctor::Examination found = doctor::examine(*run, options());
  const doctor::ExamPart* const hardware = part(found, "hardware");
  ASSERT_NE(hardware, nullptr);
  const base::Verdict& one = hardware->verdicts.at(0);
  EXPECT_EQ(one.code, "NUM-04") << one.what << one.evidence;
  EXPECT_EQ(one.level, base::Level::kFail);
  EXPECT_NE(one.evidence.find("child probe gemm bf16 ["), std::string::npos) << one.evidence;
  EXPECT_NE(one.evidence.find(" instead of "), std::string::npos) << one.evidence;
  EXPECT_NE(one.evidence.find("; on standin"), std::string::npos) << one.evidence;
  EXPECT_EQ(part(found, "device"), nullptr) << "what a child has refused does not run here";
}

TEST_F(Proof, AKernelThatDiesIsNamedWithItsShape) {
  setenv("HONE_BREAK", "head:SIGFPE", 1);
  const auto run = open();
  const doctor::Examination found = doctor::examine(*run, options());
  unsetenv("HONE_BREAK");
  const base::Verdict& one = part(found, "hardware")->verdicts.at(0);
  EXPECT_EQ(one.code, "NUM-07");
  EXPECT_NE(one.evidence.find("child probe head fp32 ["), std::string::npos) << one.evidence;
  EXPECT_NE(one.what.find("SIGFPE"), std::string::npos) << one.what;
}

TEST(KnownCrash, IsThatOfOneCardWithAnOldCublas) {
  using doctor::known_crash;
  EXPECT_NE(known_crash("NVIDIA H20", 120402).find("before 12.4.5.8"), std::string::npos);
  EXPECT_NE(known_crash("NVIDIA H20-3e", 120301), "");
  EXPECT_EQ(known_crash("NVIDIA H20", 120405), "");
  EXPECT_EQ(known_crash("NVIDIA H200", 120402), "");
  EXPECT_EQ(known_crash("NVIDIA H20", 0), "");
}

TEST(PassDifference, IsFoundInTheLossFirstAndInTheWorstGradient) {
  const auto numbers = [](double loss, double of_a) {
    doctor::PassNumbers out;
    out.loss = loss;
    out.gradients = {{"a", at::full({4}, of_a, at::kFloat)}, {"b", at::ones({4}, at::kFloat)}};
    return out;
  };
  const doctor::PassNumbers right = numbers(2, 1);
  EXPECT_TRUE(doctor::difference_of(right, numbers(2.0001, 1.0001), false).is_right());
  EXPECT_EQ(doctor::difference_of(right, numbers(2.1, 3), false).what, "the loss");
  const doctor::PassDifference off = doctor::difference_of(right, numbers(2, 1.5), true);
  EXPECT_EQ(off.what, "the gradient of a");
  EXPECT_FALSE(off.is_right());
  EXPECT_DOUBLE_EQ(off.device, 1.5);
  EXPECT_FALSE(doctor::difference_of(right, numbers(std::nan(""), 1), true).is_right());
  EXPECT_FALSE(doctor::difference_of(right, numbers(2, std::nan("")), true).is_right());
}

}  // namespace proof_test
}  // namespace hone::standin
