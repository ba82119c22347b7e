// NUM-13: a loss that jumps at the ends of epochs, and what only looks like it.
#include "doctor/watch/spike_watch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "doctor/watch/watch_state.h"

namespace hone::doctor {
namespace spike_watch_test {

// A loss with a little noise that falls from 2 to 1, and `jumps` times that at the steps that `is_odd` says.
template <typename IsOdd>
Findings told(SpikeWatch watch, IsOdd is_odd, double jumps = 3, std::int64_t steps = 200) {
  for (std::int64_t step = 1; step <= steps; ++step) {
    const double noise = 0.05 * std::sin(static_cast<double>(step) * 7.3);
    const double usual = 1 + std::exp(-static_cast<double>(step) / 40) + noise;
    Findings found = watch.see(step, is_odd(step) ? jumps * usual : usual);
    if (!found.empty()) return found;
  }
  return {};
}

TEST(SpikeWatch, NamesTheEndsOfEpochs) {
  const Findings found = told(SpikeWatch(25), [](std::int64_t step) { return step % 25 == 0; });
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].key, "NUM-13 borders");
  EXPECT_NE(found[0].verdict.what.find("at the ends of epochs, and comes back"), std::string::npos);
  EXPECT_NE(found[0].verdict.evidence.find("an epoch has 25 steps"), std::string::npos)
      << found[0].verdict.evidence;
}

TEST(SpikeWatch, NamesAPartThatComesBackAndSingleRows) {
  const Findings turns = told(SpikeWatch(1000), [](std::int64_t step) { return step % 30 == 10; });
  ASSERT_EQ(turns.size(), 1);
  EXPECT_EQ(turns[0].key, "NUM-13 steps");
  EXPECT_NE(turns[0].verdict.evidence.find("about every 30 steps"), std::string::npos)
      << turns[0].verdict.evidence;
  const Findings single =
      told(SpikeWatch(1000), [](std::int64_t step) { return step == 40 || step == 47 || step == 120; });
  ASSERT_EQ(single.size(), 1);
  EXPECT_NE(single[0].verdict.cause.find("single rows"), std::string::npos);
}

TEST(SpikeWatch, SaysNothingOfHealthyRuns) {
  EXPECT_TRUE(told(SpikeWatch(25), [](std::int64_t) { return false; }).empty());
  EXPECT_TRUE(told(
                  SpikeWatch(25), [](std::int64_t step) { return step % 25 == 0; }, 1.5)
                  .empty())
      << "small jumps";
  EXPECT_TRUE(told(SpikeWatch(25), [](std::int64_t step) { return step == 75 || step == 150; }).empty())
      << "two";
  EXPECT_TRUE(told(SpikeWatch(25), [](std::int64_t step) { return step > 100; }).empty()) << "it stays above";
  SpikeWatch noisy(10);
  for (std::int64_t step = 1; step <= 200; ++step)  // a batch of one row: from 0.4 to 3.6
    EXPECT_TRUE(noisy.see(step, 2 + 1.6 * std::sin(static_cast<double>(step * step))).empty()) << step;
}

TEST(SpikeWatch, SaysNothingOfASettledLossAndOfRareRows) {
  SpikeWatch settled(1000);
  for (std::int64_t step = 1; step <= 200; ++step)
    EXPECT_TRUE(settled.see(step, step % 30 == 10 ? 0.2 : 0.01).empty()) << step;
  const auto is_rare = [](std::int64_t step) { return step == 40 || step == 1200 || step == 2400; };
  EXPECT_TRUE(told(SpikeWatch(500), is_rare, 3, 2500).empty());
  EXPECT_EQ(told(SpikeWatch(1000), is_rare, 3, 2500).size(), 1) << "an epoch apart they are told";
}

TEST(SpikeWatch, SeesJumpsFromANewLevel) {
  SpikeWatch watch(1000);
  std::int64_t told_at = 0;
  for (std::int64_t step = 1; step <= 300 && told_at == 0; ++step) {
    const double usual = step < 100 ? 1 : 3;
    if (!watch.see(step, step % 40 == 0 ? 4 * usual : usual).empty()) told_at = step;
  }
  // 40 and 80 from the first level. The change at 100 does not come back, and 120 is too soon behind it.
  EXPECT_EQ(told_at, 161);
}

TEST(SpikeWatch, GoesOnBehindAResume) {
  const auto loss = [](int step) { return step % 25 == 0 ? 4.0 : 1 + 0.01 * (step % 3); };
  SpikeWatch before(25), watch(25);
  for (int step = 1; step <= 55; ++step) EXPECT_TRUE(before.see(step, loss(step)).empty());
  watch.restore(before.state());
  for (int step = 56; step <= 75; ++step) EXPECT_TRUE(watch.see(step, loss(step)).empty());
  EXPECT_EQ(watch.see(76, loss(76)).size(), 1);
  for (const char* const bad :
       {R"({})", R"({"usual": [1], "steps": [5, 3]})", R"({"usual": "x", "steps": []})",
        R"({"usual": [1], "steps": [3], "above": 1})"})
    EXPECT_THROW(watch.restore(base::Json::parse(bad)), BadWatchState) << bad;
}

}  // namespace spike_watch_test
}  // namespace hone::doctor
