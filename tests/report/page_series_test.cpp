// A series keeps its peaks and its ends, however many values it gets.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "report/page/series.h"

namespace hone::report {
namespace page_series_test {

TEST(PageSeries, FewValuesAreKeptAsTheyAre) {
  Series series;
  for (int step = 1; step <= 1000; ++step) series.add(step, step * 0.5);
  const auto buckets = series.buckets();
  ASSERT_EQ(buckets.size(), 1000U);
  EXPECT_EQ(buckets[9].step, 10);
  EXPECT_EQ(buckets[9].values, 1);
  EXPECT_DOUBLE_EQ(buckets[9].mean(), 5.0);
}

TEST(PageSeries, ManyValuesBecomeBucketsThatLoseNoPeak) {
  Series series;
  constexpr int kSteps = 100'000;
  double sum = 0;
  for (int step = 1; step <= kSteps; ++step) {
    const double value = step == 77'777 ? 1e6 : step == 33'333 ? -5.0 : 1.0 / step;
    series.add(step, value);
    sum += value;
  }
  const auto buckets = series.buckets();
  EXPECT_LE(buckets.size(), Series::kMostBuckets);
  EXPECT_GE(buckets.size(), Series::kMostBuckets / 2);
  double high = 0, low = 1, total = 0;
  std::int64_t values = 0, last = 0;
  for (const auto& one : buckets) {
    EXPECT_GT(one.step, last);
    last = one.step;
    high = std::max(high, one.high);
    low = std::min(low, one.low);
    total += one.sum;
    values += one.values;
    EXPECT_LE(one.low, one.mean());
    EXPECT_GE(one.high, one.mean());
  }
  EXPECT_EQ(last, kSteps);
  EXPECT_EQ(values, kSteps);
  EXPECT_EQ(high, 1e6);
  EXPECT_EQ(low, -5.0);
  EXPECT_NEAR(total, sum, 1e-6);
  EXPECT_EQ(series.highest()->step, 77'777);
  EXPECT_EQ(series.lowest()->step, 33'333);
  EXPECT_EQ(series.first()->value, 1.0);
  EXPECT_EQ(series.last()->step, kSteps);
}

TEST(PageSeries, FewerBucketsHoldTheSame) {
  Series series;
  for (int step = 1; step <= 900; ++step) series.add(step, step == 500 ? 9 : 1);
  const auto buckets = series.buckets(100);
  EXPECT_LE(buckets.size(), 100U);
  EXPECT_EQ(buckets.back().step, 900);
  double high = 0;
  for (const auto& one : buckets) high = std::max(high, one.high);
  EXPECT_EQ(high, 9);
  EXPECT_EQ(series.buckets(0).size(), 2U);
}

TEST(PageSeries, WhatIsNoNumberIsAGap) {
  Series series;
  series.add(1, std::nan(""));
  EXPECT_FALSE(series.last());
  series.add(2, 3);
  series.add(3, std::numeric_limits<double>::infinity());
  EXPECT_EQ(series.count(), 1);
  const auto buckets = series.buckets();
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].values, 0);
  EXPECT_EQ(buckets[1].mean(), 3);
  EXPECT_EQ(buckets[2].values, 0);
  EXPECT_EQ(series.buckets(2)[0].mean(), 3) << "a gap beside a value is no gap";
}

}  // namespace page_series_test
}  // namespace hone::report
