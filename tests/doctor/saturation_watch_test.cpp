// RL-07: a format reward at its ceiling beside a correctness that stands, and runs that only look like it.
#include "doctor/watch/saturation_watch.h"

#include <gtest/gtest.h>

#include <functional>

#include "doctor/watch/watch_state.h"

namespace hone::doctor {
namespace saturation_watch_test {

// A batch of 16 completions; of each reward so many score 1, the rest 0.
train::RolloutFacts batch(std::int64_t step, int format, int correct) {
  train::RolloutFacts out{.step = step, .reward_names = {"format", "correct"}};
  for (int i = 0; i < 16; ++i) {
    train::CompletionFacts one;
    one.rewards = {i < format ? 1.0 : 0.0, i < correct ? 1.0 : 0.0};
    out.completions.push_back(one);
  }
  return out;
}

Findings told(const std::function<std::pair<int, int>(int)>& course, std::vector<double> weights = {},
              int batches = 40) {
  SaturationWatch watch(batches, std::move(weights));
  for (int step = 1; step <= batches; ++step) {
    const auto [format, correct] = course(step);
    Findings found = watch.see(batch(step, format, correct));
    if (!found.empty()) return found;
  }
  return {};
}

int noise(int step) {
  return 2 + step * 7 % 3;
}
int form(int step) {
  return std::min(16, 4 * step);
}

TEST(SaturationWatch, NamesTheFormThatIsLearnedAlone) {
  const Findings found = told([](int step) { return std::pair(form(step), noise(step)); });
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].key, "RL-07 saturated");
  EXPECT_TRUE(
      found[0].verdict.what.starts_with("the reward format is at its ceiling, and correct stands at 0.1"))
      << found[0].verdict.what;
}

TEST(SaturationWatch, SaysNothingOfHealthyRuns) {
  EXPECT_TRUE(told([](int step) { return std::pair(form(step), std::min(15, 2 + step / 2)); }).empty())
      << "it rises";
  EXPECT_TRUE(told([](int step) { return std::pair(form(step), 16 - step % 2); }).empty())
      << "both are learned";
  EXPECT_TRUE(told([](int step) { return std::pair(12 + step % 4, noise(step)); }).empty()) << "no ceiling";
  EXPECT_TRUE(told([](int step) { return std::pair(form(step), noise(step)); }, {0, 1}).empty())
      << "weight 0";
  EXPECT_TRUE(told([](int step) { return std::pair(form(step), noise(step)); }, {}, 12).empty())
      << "too short";
  EXPECT_TRUE(told([](int step) { return std::pair(step == 2 ? 15 : 16, noise(step)); }).empty())
      << "the form was there from the beginning";
}

TEST(SaturationWatch, RisesAreByRank) {
  EXPECT_TRUE(rises_by_rank({1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(rises_by_rank({6, 5, 4, 3, 2, 1}));
  EXPECT_FALSE(rises_by_rank({1, 3, 2, 3, 1, 2}));
  EXPECT_FALSE(rises_by_rank({1, 1, 1, 1, 1, 1}));
  EXPECT_FALSE(rises_by_rank({}));
}

TEST(SaturationWatch, GoesOnBehindAResume) {
  SaturationWatch before(40), watch(40);
  for (int step = 1; step <= 10; ++step)
    EXPECT_TRUE(before.see(batch(step, form(step), noise(step))).empty());
  watch.restore(before.state());
  bool told = false;
  for (int step = 11; step <= 20; ++step) {
    const bool one = !before.see(batch(step, 16, noise(step))).empty();
    EXPECT_EQ(one, !watch.see(batch(step, 16, noise(step))).empty()) << step;
    told = told || one;
  }
  EXPECT_TRUE(told);
  EXPECT_THROW(watch.restore(base::Json::parse(R"({"rewards": [{}]})")), BadWatchState);
}

}  // namespace saturation_watch_test
}  // namespace hone::doctor
