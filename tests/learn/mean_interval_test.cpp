// Means with intervals: Student's t against its published tables, Wilson's interval against values of its formula in fp64.
#include "learn/mean_interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hone::learn {
namespace mean_interval_test {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<double> zeros_and_ones(int ones, int all) {
  std::vector<double> out(static_cast<std::size_t>(all), 0.0);
  for (int i = 0; i < ones; ++i) out[static_cast<std::size_t>(i)] = 1;
  return out;
}

TEST(MeanInterval, StudentsTIsThatOfTheTables) {
  EXPECT_NEAR(student_t95(1), 12.706204736, 1e-8);
  EXPECT_NEAR(student_t95(2), 4.302652730, 1e-8);
  EXPECT_NEAR(student_t95(3), 3.182446305, 1e-8);
  EXPECT_NEAR(student_t95(9), 2.262157163, 1e-8);
  EXPECT_NEAR(student_t95(30), 2.042272456, 1e-8);
  EXPECT_NEAR(student_t95(1000), 1.962339080, 1e-8);
  EXPECT_NEAR(student_t95(2'000'000), 1.959963985, 1e-8);
}

TEST(MeanInterval, OfZerosAndOnesIsWilsons) {
  const MeanInterval some = mean_interval(zeros_and_ones(3, 10));
  EXPECT_EQ(some.count, 10);
  EXPECT_NEAR(some.mean, 0.3, 1e-12);
  EXPECT_NEAR(some.std, 0.4830458915396479, 1e-12);
  EXPECT_NEAR(some.low, 0.1077912674, 1e-9);
  EXPECT_NEAR(some.high, 0.6032218525, 1e-9);
  const MeanInterval none = mean_interval(zeros_and_ones(0, 20));
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.1611251580, 1e-9);
  const MeanInterval all = mean_interval(zeros_and_ones(1, 1));
  EXPECT_NEAR(all.low, 0.2065493144, 1e-9);
  EXPECT_EQ(all.high, 1);
  EXPECT_TRUE(std::isnan(all.std)) << "of one score there is no spread";
}

TEST(MeanInterval, OfOtherScoresIsStudents) {
  const MeanInterval some = mean_interval(std::vector<double>{0.5, 1, kNone, 2.5, -1});
  EXPECT_EQ(some.count, 4) << "NaN is no score";
  EXPECT_DOUBLE_EQ(some.mean, 0.75);
  EXPECT_NEAR(some.std, 1.4433756729740643, 1e-12);
  EXPECT_NEAR(some.low, 0.75 - 3.182446305 * 1.4433756729740643 / 2, 1e-8);
  EXPECT_NEAR(some.high, 0.75 + 3.182446305 * 1.4433756729740643 / 2, 1e-8);
  const MeanInterval same = mean_interval(std::vector<double>{0.5, 0.5, 0.5});
  EXPECT_EQ(same.low, 0.5);
  EXPECT_EQ(same.high, 0.5);
}

TEST(MeanInterval, OfTooFewScoresIsNone) {
  const MeanInterval none = mean_interval(std::vector<double>{kNone});
  EXPECT_EQ(none.count, 0);
  EXPECT_TRUE(std::isnan(none.mean) && std::isnan(none.low) && std::isnan(none.high));
  const MeanInterval one = mean_interval(std::vector<double>{0.5});
  EXPECT_EQ(one.mean, 0.5);
  EXPECT_TRUE(std::isnan(one.low) && std::isnan(one.high));
}

}  // namespace mean_interval_test
}  // namespace hone::learn
