// Every method on the stand-in gives what it gives on the CPU, to 1e-5 in fp32, and a step crosses between
// host and device as often as it did when this was written: another copy, or another wait for the device,
// fails here.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "standin/cuda_only.h"
#include "standin/run_cases.h"
#include "standin/tiny_runs.h"
#include "train/opening/open_run.h"

namespace hone::standin {
namespace methods_test {

namespace fs = base::fs;
using config::Method;

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

class MethodsTest : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  Outcome run(const std::string& device) const {
    return run_tiny(tiny_plan(GetParam().method, device, root_ / device, options_of(GetParam())),
                    /*stop_after=*/0, GetParam().by_layers);
  }

  // Its steps are the CPU's, and one crosses between host and device as often as the case says.
  void expect_same_steps() const;

  fs::path root_ = fs::temp_directory_path() / ("hone_standin_" + std::to_string(getpid()));
};

// Cases of which only the steps are their own.
class StepsTest : public MethodsTest {};
// What a few cases show in ./test, and all in --slow.
class TableTest : public MethodsTest {};
class RehearsalTest : public MethodsTest {};

void MethodsTest::expect_same_steps() const {
  const Outcome cpu = run("cpu");
  const Outcome found = run(kName);
  expect_close(cpu, found, GetParam().name, GetParam().bound);
  EXPECT_EQ((cpu.after.back() - cpu.after.front()).operators, 0) << "the CPU's run touched the stand-in";
  ASSERT_EQ(found.after.size(), 3U);
  const Counts step = found.after[1] - found.after[0], &expected = GetParam().a_step;
  EXPECT_GT(step.operators, 100) << "the stand-in's run was elsewhere";
  if (!GetParam().counted) return;
  EXPECT_EQ(step.to_device, expected.to_device);
  EXPECT_EQ(step.staged, expected.staged);
  EXPECT_EQ(step.to_host, expected.to_host);
  EXPECT_EQ(step.scalars, expected.scalars);
  EXPECT_EQ(step.shapes, expected.shapes);
}

// The operators of GPUs, linears that are joined among them.
TEST_P(TableTest, IsTheCpusWithTheTableOfGpus) {
  const Outcome cpu = run("cpu");
  const UseCudaTable table;
  expect_close(cpu, run(kName), GetParam().name, GetParam().bound);
}

// In bf16, where attention, products and norms are the table's own; of steps whose tokens do not depend on rounding.
TEST_P(TableTest, IsNearTheCpusInBf16WithTheTableOfGpus) {
  if (config::samples(GetParam().method)) return;
  std::vector<std::string> words = options_of(GetParam());
  words.insert(words.end(), {"--bf16", "true"});
  const auto losses = [&](const std::string& device) {
    return losses_of(run_tiny(tiny_plan(GetParam().method, device, root_ / device, words),
                              /*stop_after=*/0, GetParam().by_layers));
  };
  const std::vector<double> expected = losses("cpu");
  const UseCudaTable table;
  expect_near_losses(expected, losses(kName), GetParam().name);
}

TEST_P(MethodsTest, IsTheCpusAndCrossesAsOftenAsBefore) {
  expect_same_steps();
}

TEST_P(StepsTest, AreTheCpus) {
  expect_same_steps();
}

void expect_near(double found, double expected, const std::string& what) {
  EXPECT_NEAR(found, expected, 1e-5 * std::max(1.0, std::fabs(expected))) << what;
}

void expect_same_rehearsal(train::OpenedRun& cpu, train::OpenedRun& here,
                           const train::RehearsalRequest& request) {
  cpu.adapter->zero_gradient();
  here.adapter->zero_gradient();
  const train::Rehearsal a = cpu.method->rehearse(request), b = here.method->rehearse(request);
  expect_near(b.loss, a.loss, "loss");
  expect_near(b.nll, a.nll, "nll");
  EXPECT_EQ(b.tokens, a.tokens);
  EXPECT_EQ(b.scored, a.scored);
  EXPECT_LE(b.sampler_gap.value_or(0), 1e-5);
  const at::Tensor expected = cpu.adapter->flat_gradient(), found = here.adapter->flat_gradient().cpu();
  EXPECT_LE((found - expected).abs().max().item<double>(), 1e-5 * expected.abs().max().item<double>());
}

// What the doctor asks of a run before step 1, and an evaluation.
TEST_P(RehearsalTest, RehearsesAndEvaluatesAsOnTheCpu) {
  std::vector<std::string> words = options_of(GetParam());
  if (!config::samples(GetParam().method)) {
    words.insert(words.end(),
                 {"--eval_dataset", parity(GetParam().data).string(), "--eval_strategy", "epoch"});
  }
  train::RunListener silent;
  const auto open = [&](const std::string& device) {
    return train::open_run(tiny_plan(GetParam().method, device, root_ / device, words), silent);
  };
  const auto cpu = open("cpu"), here = open(kName);
  expect_same_rehearsal(*cpu, *here, {.max_tokens = 64});
  expect_same_rehearsal(*cpu, *here, {.max_tokens = 64, .backward = false, .adapters_on = false});
  if (!cpu->method->has_evaluation()) return;
  const train::EvalFacts a = cpu->method->evaluate(), b = here->method->evaluate();
  ASSERT_EQ(b.metrics.size(), a.metrics.size());
  for (std::size_t i = 0; i < a.metrics.size(); ++i) {
    expect_near(b.metrics[i].second, a.metrics[i].second, a.metrics[i].first);
  }
}

const std::vector<std::string> kTableCases = {"full_sft", "sft", "sft_4bit", "sft_dora", "dpo", "grpo"};
const std::vector<std::string> kRehearsalCases = {"full_sft", "sft_4bit", "sft",  "dpo",       "kto",
                                                  "cpo",      "reward",   "grpo", "online_dpo"};

INSTANTIATE_TEST_SUITE_P(Cases, MethodsTest, testing::ValuesIn(all_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Optimizers, StepsTest, testing::ValuesIn(optimizer_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Some, TableTest, testing::ValuesIn(picked(all_cases(), kTableCases, true)), name_of);
INSTANTIATE_TEST_SUITE_P(Slow, TableTest, testing::ValuesIn(picked(all_cases(), kTableCases, false)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Some, RehearsalTest, testing::ValuesIn(picked(all_cases(), kRehearsalCases, true)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Slow, RehearsalTest, testing::ValuesIn(picked(all_cases(), kRehearsalCases, false)),
                         name_of);

// A name that no case has would leave its row to --slow unseen.
TEST(PickedCases, AreThere) {
  EXPECT_EQ(picked(all_cases(), kTableCases, true).size(), kTableCases.size());
  EXPECT_EQ(picked(all_cases(), kRehearsalCases, true).size(), kRehearsalCases.size());
}

}  // namespace methods_test
}  // namespace hone::standin
