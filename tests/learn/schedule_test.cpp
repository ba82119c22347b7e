#include "learn/schedule.h"

#include <gtest/gtest.h>

namespace hone::learn {
namespace schedule_test {

TEST(Schedule, ARunWithWarmupBeginsWithZero) {
  EXPECT_EQ(schedule_factor({.warmup_steps = 5, .total_steps = 10}, 0), 0.0);
  EXPECT_EQ(schedule_factor({.total_steps = 10}, 0), 1.0);
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
