#include "doctor/tools/lr_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "config/parse.h"
#include "model/tiny_model.h"
#include "train/opening/open_run.h"

namespace hone::doctor {
namespace lr_range_test {

// Half a decade a point, from 1e-6; `change(log10 of the rate)`.
template <typename Change>
RangeResult curve(Change&& change) {
  RangeResult out{.first_loss = 2};
  for (int i = 0; i <= 40; ++i) {
    const double log_rate = -6 + i * 0.125;
    out.points.push_back(
        {.learning_rate = std::pow(10, log_rate), .loss = 2 + change(log_rate), .change = change(log_rate)});
  }
  judge_range(out);
  return out;
}

double fall(double log_rate, double middle) {
  return -0.8 / (1 + std::exp(-6 * (log_rate - middle)));
}

TEST(LrRange, ProposesWhereTheLossFallsFastest) {
  const RangeResult found = curve([](double x) { return fall(x, -3.5); });
  ASSERT_TRUE(found.proposal);
  EXPECT_FALSE(found.diverged);
  EXPECT_DOUBLE_EQ(*found.proposal, 3e-4);
}

TEST(LrRange, ADivergenceSoonAfterTheFallLowersTheProposal) {
  const RangeResult found = curve([](double x) { return fall(x, -3.5) + std::exp(8 * (x + 3)) * 0.2; });
  ASSERT_TRUE(found.proposal && found.diverged);
  EXPECT_LE(*found.proposal, found.points[*found.diverged].learning_rate / 5);
  EXPECT_LE(*found.proposal, 3e-4);
}

TEST(LrRange, NoProposalWhereNothingIsGained) {
  EXPECT_FALSE(curve([](double) { return 0.0; }).proposal);
  EXPECT_FALSE(curve([](double x) { return std::exp(4 * (x + 2)); }).proposal);
  EXPECT_FALSE(curve([](double x) { return 0.005 * std::sin(9 * x); }).proposal);
  RangeResult none;
  judge_range(none);
  EXPECT_FALSE(none.proposal);
}

class LrRangeRun : public ::testing::Test {
 protected:
  // `peft`: of a LoRA, else the whole model is trained.
  config::Plan plan(const std::string& output, const std::string& peft = "true") const {
    const hone::test_tools::fs::path parity = hone::test_tools::fs::path(HONE_FIXTURES) / "parity";
    return config::parse_run(
        config::Method::kSft,
        {"--model_name_or_path", (parity / "tiny_llama").string(), "--dataset_name",
         (parity / "sft" / "text.jsonl").string(), "--use_peft", peft, "--lora_target_modules", "all-linear",
         "--dtype", "float32", "--bf16", "false", "--threads", "1", "--output_dir", output});
  }
  hone::test_tools::TempFolder folder_;
  train::RunListener silent_;
  std::atomic<bool> stop_ = false;
};

TEST_F(LrRangeRun, LowersTheLossAndLeavesNoTrace) {
  const std::string output = (folder_.path() / "out").string();
  const auto run = train::open_run(plan(output), silent_);
  const at::Tensor before = run->adapter->flat().clone();
  int told = 0;
  const RangeResult found = range_test(*run, {.steps = 30}, [&told](const RangePoint&) { ++told; }, stop_);
  EXPECT_EQ(told, static_cast<int>(found.points.size()));
  ASSERT_TRUE(found.proposal);
  EXPECT_GE(*found.proposal, 1e-4);
  EXPECT_LE(*found.proposal, 3e-2);
  EXPECT_NEAR(found.points.front().change, 0,
              1e-3);  // held against its own batch: almost nothing has moved yet
  EXPECT_TRUE(run->adapter->flat().equal(before));
  EXPECT_EQ(run->adapter->flat_gradient().abs().max().item<float>(), 0);
  EXPECT_FALSE(hone::test_tools::fs::exists(output));
}

TEST_F(LrRangeRun, TheSameTwice) {
  const auto run = train::open_run(plan((folder_.path() / "out").string()), silent_);
  const RangeResult one = range_test(*run, {.steps = 10}, {}, stop_),
                    two = range_test(*run, {.steps = 10}, {}, stop_);
  ASSERT_EQ(one.points.size(), two.points.size());
  for (std::size_t i = 0; i < one.points.size(); ++i) EXPECT_EQ(one.points[i].loss, two.points[i].loss);
}

TEST_F(LrRangeRun, StopsWhenAsked) {
  const auto run = train::open_run(plan((folder_.path() / "out").string()), silent_);
  const RangeResult found =
      range_test(*run, {.steps = 30}, [this](const RangePoint&) { stop_ = true; }, stop_);
  EXPECT_EQ(found.points.size(), 1U);
}

// As the run that it looks for a rate for steps: with the memory of a layer's gradients.
TEST_F(LrRangeRun, StepsLayerByLayerGiveTheSamePoints) {
  const auto run = train::open_run(plan((folder_.path() / "out").string(), "false"), silent_);
  const RangeResult whole = range_test(*run, {.steps = 6}, {}, stop_);
  run->start.memory.layer_steps = true;
  const at::Tensor before = run->adapter->flat().clone();
  const RangeResult by_layer = range_test(*run, {.steps = 6}, {}, stop_);
  EXPECT_FALSE(run->adapter->flat_gradient().defined()) << "the run keeps those of a layer";
  EXPECT_TRUE(run->adapter->flat().equal(before));
  ASSERT_EQ(by_layer.points.size(), whole.points.size());
  ASSERT_FALSE(whole.points.empty());
  for (std::size_t i = 0; i < whole.points.size(); ++i)
    EXPECT_EQ(by_layer.points[i].loss, whole.points[i].loss) << i;
}

}  // namespace lr_range_test
}  // namespace hone::doctor
