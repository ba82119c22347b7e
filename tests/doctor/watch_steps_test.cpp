// Series of step numbers made by hand.
#include "doctor/watch/watch_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace hone::doctor {
namespace watch_steps_test {

using base::Level;
using train::StepFacts;

const Finding* find(const Findings& found, const std::string& key) {
  const auto at =
      std::find_if(found.begin(), found.end(), [&](const Finding& one) { return one.key == key; });
  return at == found.end() ? nullptr : &*at;
}

StepFacts policy_step(std::vector<train::NamedValue> metrics, double norm = 0.1) {
  metrics.emplace_back("reward", 0.5);
  return {.step = 1, .loss = 0.01, .grad_norm = norm, .metrics = std::move(metrics)};
}

TEST(PolicyWatch, EntropyThatIsGoneForThreeSteps) {
  PolicyWatch watch({.rows = 8});
  EXPECT_TRUE(watch.see(policy_step({{"entropy", 0.001}}), false).empty());
  EXPECT_TRUE(watch.see(policy_step({{"entropy", 0.001}}), false).empty());
  const Findings found = watch.see(policy_step({{"entropy", 0.001}}), false);
  ASSERT_NE(find(found, "RL-08 entropy"), nullptr);
  EXPECT_EQ(find(found, "RL-08 entropy")->verdict.level, Level::kWarn);
  EXPECT_EQ(find(watch.see(policy_step({{"entropy", 0.001}}), true), "RL-08 entropy")->verdict.level,
            Level::kNote)
      << "a run that has learned its prompts is certain of them";
  EXPECT_TRUE(watch.see(policy_step({{"entropy", 0.5}}), false).empty());
}

TEST(PolicyWatch, EntropyOfGuessingForThreeSteps) {
  PolicyWatch watch({.rows = 8, .uniform = 6});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(watch.see(policy_step({{"entropy", 5.8}}), false).empty());
  const Findings found = watch.see(policy_step({{"entropy", 5.8}}), false);
  ASSERT_NE(find(found, "RL-08 guessing"), nullptr);
  EXPECT_EQ(find(found, "RL-08 guessing")->verdict.level, Level::kWarn);
  EXPECT_TRUE(watch.see(policy_step({{"entropy", 3}}), false).empty());
  PolicyWatch unknown({.rows = 8});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(unknown.see(policy_step({{"entropy", 5.8}}), false).empty());
}

TEST(PolicyWatch, KlThatStaysAboveTwo) {
  PolicyWatch watch({.beta = 0.04, .rows = 8});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(watch.see(policy_step({{"kl", 3.0}}), false).empty());
  EXPECT_NE(find(watch.see(policy_step({{"kl", 3.0}}), false), "RL-08 kl"), nullptr);
}

TEST(PolicyWatch, TheRatioGapHasALimitForEachPrecision) {
  const auto found = [](PolicyWatch::Setup setup, double gap) {
    return PolicyWatch(setup).see(policy_step({{"ratio_gap", gap}}), false);
  };
  EXPECT_TRUE(found({}, 5e-6).empty());
  EXPECT_NE(find(found({}, 2e-4), "RL-10"), nullptr);
  EXPECT_TRUE(found({.bf16 = true, .exact_kernels = true}, 5e-4).empty());
  EXPECT_NE(find(found({.bf16 = true, .exact_kernels = true}, 2e-3), "RL-10"), nullptr);
  EXPECT_TRUE(found({.bf16 = true}, 0.05).empty()) << "libtorch's products promise no bits";
  PolicyWatch watch({});
  Level level = Level::kOk;
  for (int i = 0; i < 3; ++i)
    level = find(watch.see(policy_step({{"ratio_gap", 0.5}}), false), "RL-10")->verdict.level;
  EXPECT_EQ(level, Level::kFail) << "far beyond it, three steps in a row";
}

TEST(PolicyWatch, AMeanGapHasALimitOfItsOwn) {
  const auto found = [](double most, double mean) {
    return PolicyWatch({.bf16 = true})
        .see(policy_step({{"ratio_gap", most}, {"ratio_gap_mean", mean}}), false);
  };
  EXPECT_TRUE(found(0.6, 0.019).empty()) << "of a single token";
  const Findings wide = found(0.1, 0.021);
  ASSERT_NE(find(wide, "RL-10"), nullptr);
  EXPECT_EQ(find(wide, "RL-10")->verdict.level, Level::kWarn);
}

TEST(PolicyWatch, RewardsThatDifferWithoutAGradient) {
  PolicyWatch watch({.rows = 8});
  const StepFacts step = policy_step({{"dead_groups", 0.5}, {"skipped_rows", 4}}, 0);
  EXPECT_TRUE(watch.see(step, false).empty());
  EXPECT_TRUE(watch.see(step, false).empty());
  const Findings found = watch.see(step, false);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].verdict.code, "GRAD-02");
  EXPECT_EQ(found[0].verdict.level, Level::kFail);
}

// ---- NUM-08

TEST(TrendWatch, ALossAboveItsBeginning) {
  const auto levels = [](double later) {
    TrendWatch watch(0, true);
    Level worst = Level::kOk;
    for (int step = 1; step <= 40; ++step) {
      const double loss = step <= 5 ? 2.0 : later;
      for (const Finding& one : watch.see({.step = step, .loss = loss, .grad_norm = 1})) {
        worst = std::max(worst, one.verdict.level);
      }
    }
    return worst;
  };
  EXPECT_EQ(levels(1.5), Level::kOk);
  EXPECT_EQ(levels(2.03), Level::kOk) << "a run that stands still does not diverge";
  EXPECT_EQ(levels(2.2), Level::kWarn);
  EXPECT_EQ(levels(16), Level::kFail);
}

TEST(TrendWatch, WaitsForTheWarmUpAndSaysNothingOfPolicyLosses) {
  TrendWatch warm(1000, true), policy(0, false);
  for (int step = 1; step <= 60; ++step) {
    const StepFacts facts = {.step = step, .loss = step <= 5 ? 1.0 : 9.0, .grad_norm = 1};
    EXPECT_TRUE(warm.see(facts).empty());
    EXPECT_TRUE(policy.see(facts).empty());
  }
}

TEST(TrendWatch, GradientsThatGrewAndASpikeThatDidNot) {
  TrendWatch watch(0, false);
  std::int64_t step = 0;
  const auto see = [&](double norm) { return watch.see({.step = ++step, .grad_norm = norm}); };
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(see(i % 3 == 0 ? 0 : 0.2).empty());
  EXPECT_TRUE(see(5).empty());
  EXPECT_TRUE(see(0.2).empty());
  EXPECT_TRUE(see(5).empty());
  EXPECT_TRUE(see(5).empty());
  EXPECT_NE(find(see(5), "NUM-08 gradient"), nullptr);
}

// ---- MEM-02

TEST(MemoryWatch, PredictsTheStepOfExhaustion) {
  MemoryWatch watch;
  Findings found;
  for (std::int64_t step = 1; step <= 60; ++step) {
    found = watch.see(step, 2000, 1'000'000'000 + step * 10'000'000, 5'000'000'000);
  }
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].verdict.code, "MEM-02");
  EXPECT_EQ(found[0].verdict.level, Level::kWarn);
  EXPECT_NE(found[0].verdict.what.find("about step 560 of 2000"), std::string::npos) << found[0].verdict.what;
}

TEST(MemoryWatch, PausesWhenItIsNearAndIsSilentWhenItNeverComes) {
  MemoryWatch near, never, steps;
  Findings at_the_end, none, staircase;
  for (std::int64_t step = 1; step <= 60; ++step) {
    at_the_end = near.see(step, 2000, step * 10'000'000, 100'000'000);
    none = never.see(step, 100, step * 10'000'000, 5'000'000'000);
    staircase = steps.see(step, 1'000'000, step < 40 ? 1'000'000'000 : 2'000'000'000, 5'000'000'000);
  }
  ASSERT_EQ(at_the_end.size(), 1);
  EXPECT_EQ(at_the_end[0].verdict.level, Level::kFail);
  EXPECT_TRUE(none.empty()) << "the run ends before";
  EXPECT_TRUE(staircase.empty()) << "one longer batch";
}

// ---- PREF-01, PREF-02

StepFacts pair_step(std::int64_t step, double margin, double chosen, double logps, double rate = 1e-5) {
  return {.step = step,
          .loss = std::log(2.0),
          .learning_rate = rate,
          .metrics = {{"rewards/margins", margin}, {"rewards/chosen", chosen}, {"logps/chosen", logps}}};
}

TEST(PreferenceWatch, RewardsThatStayExactlyZero) {
  PreferenceWatch watch;
  for (int step = 1; step <= 5; ++step) EXPECT_TRUE(watch.see(pair_step(step, 0, 0, -50)).empty());
  const Findings found = watch.see(pair_step(6, 0, 0, -50));
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].verdict.code, "PREF-01");
  EXPECT_EQ(found[0].verdict.level, Level::kFail);
}

TEST(PreferenceWatch, AWarmUpFromZeroAndARunThatMovesAreNoFault) {
  PreferenceWatch warm, moves;
  for (int step = 1; step <= 20; ++step) {
    EXPECT_TRUE(warm.see(pair_step(step, 0, 0, -50, 0)).empty());
    EXPECT_TRUE(moves.see(pair_step(step, 1e-4 * (step - 1), 1e-5 * (step - 1), -50)).empty());
  }
}

TEST(PreferenceWatch, ChosenAnswersThatBecomeUnlikely) {
  PreferenceWatch watch, healthy, batches;
  Findings found;
  for (int step = 1; step <= 36; ++step) {
    found = watch.see(pair_step(step, 0.1 * step, -0.1 * step, -50 - 2.0 * step));
    EXPECT_TRUE(healthy.see(pair_step(step, 0.01 * step, 0.005, -50 - 0.1 * step)).empty())
        << "a small fall is normal";
    EXPECT_TRUE(batches.see(pair_step(step, 0.001 * step, -0.0005 * step, -0.7 - 0.01 * step)).empty())
        << "later batches have less likely answers, which the policy has hardly touched";
  }
  ASSERT_NE(find(found, "PREF-02"), nullptr);
  EXPECT_EQ(find(found, "PREF-02")->verdict.level, Level::kWarn);
}

}  // namespace watch_steps_test
}  // namespace hone::doctor
