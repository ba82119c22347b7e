// The doctor on the stand-in: before a run its verdicts are the CPU's, and during one it waits for the device as seldom as
// can be.
#include "doctor/examination.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "doctor/tools/lr_range.h"
#include "doctor/watch/watch.h"
#include "standin/run_cases.h"
#include "standin/tiny_runs.h"
#include "train/opening/open_run.h"

namespace hone::standin {
namespace doctor_test {

namespace fs = base::fs;
using config::Method;

std::vector<Case> cases() {
  const std::string text = "sft/text.jsonl";
  const std::vector<std::string> group = {"--reward_funcs",
                                          "length(target=6)",
                                          "--per_device_train_batch_size",
                                          "8",
                                          "--num_generations",
                                          "4",
                                          "--max_completion_length",
                                          "6"};
  return {
      {.name = "sft", .data = text, .words = {"--per_device_train_batch_size", "2"}},
      {.name = "sft_8bit_states",
       .data = text,
       .words = {"--per_device_train_batch_size", "2", "--optim", "adamw_8bit", "--lora_r", "64"}},
      {.name = "sft_full", .data = text, .words = {"--per_device_train_batch_size", "2"}, .full = true},
      {.name = "dpo",
       .method = Method::kDpo,
       .data = "trl_dpo/explicit.jsonl",
       .words = {"--per_device_train_batch_size", "2"}},
      {.name = "grpo", .method = Method::kGrpo, .data = "trl_grpo/prompts.jsonl", .words = group},
  };
}

class DoctorTest : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  std::unique_ptr<train::OpenedRun> open(const std::string& device) {
    return train::open_run(tiny_plan(GetParam().method, device, root_ / device, options_of(GetParam())),
                           silent_);
  }

  train::RunListener silent_;
  fs::path root_ = fs::temp_directory_path() / ("hone_standin_doctor_" + std::to_string(getpid()));
};

// What each part found: "gradient: GRAD-01 0". Not of parts that measure the machine, or that the CPU has not.
std::string verdicts_of(const doctor::Examination& found) {
  std::string out;
  for (const doctor::ExamPart& part : found.parts) {
    if (part.name == "hardware" || part.name == "budget" || part.name == "device") continue;
    for (const base::Verdict& one : part.verdicts) {
      out += part.name + ": " + one.code + " " + std::to_string(static_cast<int>(one.level));
      if (one.level == base::Level::kFail) out += " " + one.what + "; " + one.evidence;
      out += "\n";
    }
  }
  return out;
}

TEST_P(DoctorTest, FindsWhatItFindsOnTheCpuAndChangesNothing) {
  const auto cpu = open("cpu"), here = open(kName);
  const at::Tensor before = here->adapter->flat().detach().cpu().clone();
  const bool deep = GetParam().name == "sft";
  const doctor::ExamOptions options = {.depth = deep ? doctor::Depth::kDeep : doctor::Depth::kRun};
  const doctor::Examination a = doctor::examine(*cpu, options), b = doctor::examine(*here, options);
  EXPECT_EQ(verdicts_of(b), verdicts_of(a));
  EXPECT_GE(b.parts.size(), 6U);
  EXPECT_TRUE(at::equal(here->adapter->flat().detach().cpu(), before));
}

INSTANTIATE_TEST_SUITE_P(Runs, DoctorTest, testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

// What a run tells, with what had crossed by then.
class Recorder final : public train::RunListener {
 public:
  void on_step(const train::StepFacts&, std::int64_t) override { after.push_back(counts()); }
  void on_verdict(const base::Verdict& one, std::int64_t) override { codes.insert(one.code); }
  std::vector<Counts> after;
  std::set<std::string> codes;
  std::atomic<bool> stop = false;
};

// At steps 1 to 3 it also looks at every trained tensor: whether it has a gradient, and moves.
TEST(Watch, AMicroBatchWaitsTwiceAndACheckOfTheTensorsThreeTimes) {
  const fs::path root = fs::temp_directory_path() / ("hone_standin_watch_" + std::to_string(getpid()));
  const Case one = {.name = "sft",
                    .data = "sft/text.jsonl",
                    .words = {"--per_device_train_batch_size", "2", "--max_steps", "6"}};
  Recorder recorder;
  {
    doctor::Watch watch(recorder, config::OnFault::kWarn);
    const auto run = train::open_run(tiny_plan(Method::kSft, kName, root, options_of(one)), watch);
    train::begin_run(*run, watch, recorder.stop, &watch.guard());
  }
  ASSERT_EQ(recorder.after.size(), 6U);
  EXPECT_LE((recorder.after[2] - recorder.after[1]).synchronizations(), 2 + 3);
  EXPECT_LE((recorder.after[4] - recorder.after[3]).synchronizations(), 2);
  EXPECT_FALSE(recorder.codes.contains("GRAD-02"));
  EXPECT_FALSE(recorder.codes.contains("GRAD-05"));
  fs::remove_all(root);
}

// hone lr-find
TEST(LrRange, IsTheCpus) {
  const fs::path root = fs::temp_directory_path() / ("hone_standin_range_" + std::to_string(getpid()));
  train::RunListener silent;
  const std::atomic<bool> stop = false;
  const auto range = [&](const std::string& device) {
    const Case one = {
        .name = "range", .data = "sft/text.jsonl", .words = {"--per_device_train_batch_size", "2"}};
    const auto run = train::open_run(tiny_plan(Method::kSft, device, root, options_of(one)), silent);
    return doctor::range_test(*run, {.steps = 8, .batches = 3}, {}, stop);
  };
  const doctor::RangeResult cpu = range("cpu"), here = range(kName);
  EXPECT_EQ(here.proposal, cpu.proposal);
  ASSERT_EQ(here.points.size(), cpu.points.size());
  for (std::size_t i = 0; i < cpu.points.size(); ++i)
    EXPECT_NEAR(here.points[i].loss, cpu.points[i].loss, 1e-5 * std::max(1.0, cpu.points[i].loss)) << i;
}

}  // namespace doctor_test
}  // namespace hone::standin
