#include "train/loop/triggers.h"

#include <gtest/gtest.h>

#include <vector>

namespace hone::train {
namespace triggers_test {

using config::IntervalStrategy;
using config::Plan;

std::vector<std::int64_t> steps_that(const Plan& plan, std::int64_t total, std::int64_t per_epoch,
                                     bool Actions::* action) {
  const Intervals intervals = resolve_intervals(plan, total);
  std::vector<std::int64_t> out;
  for (std::int64_t step = 1; step <= total; ++step) {
    const double epoch = static_cast<double>(step) / static_cast<double>(per_epoch);
    if (actions_after(plan, intervals, step, total, step % per_epoch == 0, epoch).*action)
      out.push_back(step);
  }
  return out;
}

TEST(Triggers, LogsEveryLoggingStepsAndTheFirstWhenAsked) {
  Plan plan;
  plan.logging_steps = 3;
  EXPECT_EQ(steps_that(plan, 7, 100, &Actions::log), (std::vector<std::int64_t>{3, 6}));
  plan.logging_first_step = true;
  EXPECT_EQ(steps_that(plan, 7, 100, &Actions::log), (std::vector<std::int64_t>{1, 3, 6}));
  plan.logging_strategy = IntervalStrategy::kNo;
  plan.logging_first_step = false;
  EXPECT_TRUE(steps_that(plan, 7, 100, &Actions::log).empty());
}

TEST(Triggers, AShareOfAllStepsIsRoundedUp) {
  Plan plan;
  plan.logging_steps = 0.3;
  EXPECT_EQ(resolve_intervals(plan, 7).logging, 3);
  plan.save_steps = 0.01;
  EXPECT_EQ(resolve_intervals(plan, 7).save, 1);
}

TEST(Triggers, EvaluatesEveryLoggingStepsUnlessToldAndAlwaysAtTheEnd) {
  Plan plan;
  plan.logging_steps = 2;
  plan.eval_strategy = IntervalStrategy::kSteps;
  EXPECT_EQ(steps_that(plan, 5, 100, &Actions::evaluate), (std::vector<std::int64_t>{2, 4, 5}));
  plan.eval_steps = 4;
  EXPECT_EQ(steps_that(plan, 5, 100, &Actions::evaluate), (std::vector<std::int64_t>{4, 5}));
}

// The lists are those of transformers 5.23's DefaultFlowCallback.
TEST(Triggers, EvalDelayCountsStepsOrEpochs) {
  Plan plan;
  plan.eval_steps = 2;
  plan.eval_delay = 4;
  plan.eval_strategy = IntervalStrategy::kSteps;
  EXPECT_EQ(steps_that(plan, 7, 3, &Actions::evaluate), (std::vector<std::int64_t>{4, 6, 7}));
  plan.eval_delay = 8;
  EXPECT_TRUE(steps_that(plan, 7, 3, &Actions::evaluate).empty());
  plan.eval_strategy = IntervalStrategy::kEpoch;
  plan.eval_delay = 2;
  EXPECT_EQ(steps_that(plan, 10, 3, &Actions::evaluate), (std::vector<std::int64_t>{6, 9, 10}));
  plan.eval_delay = 3.2;
  EXPECT_EQ(steps_that(plan, 10, 3, &Actions::evaluate), (std::vector<std::int64_t>{10}));
  plan.eval_delay = 3.5;
  EXPECT_TRUE(steps_that(plan, 10, 3, &Actions::evaluate).empty());
}

TEST(Triggers, SavesByStepsOrEpochsAndAtTheEndButNeverWhenTurnedOff) {
  Plan plan;
  plan.save_steps = 4;
  EXPECT_EQ(steps_that(plan, 6, 100, &Actions::save), (std::vector<std::int64_t>{4, 6}));
  plan.save_strategy = IntervalStrategy::kEpoch;
  EXPECT_EQ(steps_that(plan, 7, 3, &Actions::save), (std::vector<std::int64_t>{3, 6, 7}));
  for (const IntervalStrategy never : {IntervalStrategy::kNo, IntervalStrategy::kBest}) {
    plan.save_strategy = never;  // best: the loop saves after an evaluation
    EXPECT_TRUE(steps_that(plan, 7, 3, &Actions::save).empty());
  }
}

}  // namespace triggers_test
}  // namespace hone::train
