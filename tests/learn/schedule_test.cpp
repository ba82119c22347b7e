#include "learn/schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "learn/golden.h"

namespace hone::learn {
namespace schedule_test {

Scheduler scheduler_of(const std::string& name) {
  static const std::map<std::string, Scheduler> names = {
      {"linear", Scheduler::kLinear},
      {"cosine", Scheduler::kCosine},
      {"constant", Scheduler::kConstant},
      {"constant_with_warmup", Scheduler::kConstantWithWarmup}};
  return names.at(name);
}

TEST(Schedule, EqualsTransformersStepForStep) {
  ASSERT_EQ(test::golden()["schedules"].size(), 9U);
  for (const auto& recorded : test::golden()["schedules"]) {
    const ScheduleSpec spec{scheduler_of(recorded["type"]), recorded["warmup"], recorded["total"],
                            recorded["num_cycles"]};
    std::int64_t step = 0;
    for (const double factor : recorded["factors"]) {
      EXPECT_DOUBLE_EQ(schedule_factor(spec, step), factor) << recorded["type"] << " at step " << step;
      ++step;
    }
    EXPECT_EQ(step, spec.total_steps + 2);
  }
}

TEST(Schedule, ARunWithWarmupBeginsWithZero) {
  EXPECT_EQ(schedule_factor({Scheduler::kLinear, 5, 10, 0.5}, 0), 0.0);
  EXPECT_EQ(schedule_factor({Scheduler::kLinear, 0, 10, 0.5}, 0), 1.0);
}

TEST(Schedule, WarmupIsStepsOrAShareRoundedUp) {
  EXPECT_EQ(resolve_warmup(0, 100), 0);
  EXPECT_EQ(resolve_warmup(7, 100), 7);
  EXPECT_EQ(resolve_warmup(7.9, 100), 7);
  EXPECT_EQ(resolve_warmup(0.1, 101), 11);
  EXPECT_EQ(resolve_warmup(1, 100), 1);
}

}  // namespace schedule_test
}  // namespace hone::learn
