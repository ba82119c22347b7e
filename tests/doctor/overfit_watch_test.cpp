// NUM-11: an evaluation that gets worse while the training loss falls, and what only looks like it.
#include "doctor/watch/overfit_watch.h"

#include <gtest/gtest.h>

namespace hone::doctor {
namespace overfit_watch_test {

// Pairs of a training loss and an evaluation; the step at which it is told, 0: never.
std::int64_t told_at(const std::vector<std::pair<double, double>>& course, OverfitWatch watch = {}) {
  std::int64_t step = 0;
  for (const auto& [loss, eval] : course) {
    step += 10;
    EXPECT_TRUE(watch.see(step, {{"loss", loss}}).empty());
    if (!watch.see(step, {{"eval_loss", eval}, {"eval_runtime", 1}}).empty()) return step;
  }
  return 0;
}

TEST(OverfitWatch, TellsWhenTheEvaluationRisesTwiceWhileTrainingFalls) {
  EXPECT_EQ(told_at({{2, 2.1}, {1.5, 1.8}, {1, 1.9}, {0.6, 2.2}, {0.3, 2.5}}), 40);
}

TEST(OverfitWatch, SaysNothingOfAHealthyRunOrOfNoise) {
  EXPECT_EQ(told_at({{2, 2.1}, {1.5, 1.8}, {1.2, 1.6}, {1.1, 1.55}}), 0);
  EXPECT_EQ(told_at({{2, 2.1}, {1.5, 1.8}, {1.4, 1.82}, {1.3, 1.81}, {1.2, 1.83}, {1.1, 1.80}}), 0)
      << "up and down";
  EXPECT_EQ(told_at({{2, 2.1}, {1.5, 1.8}, {1.4, 1.801}, {1.3, 1.802}, {1.2, 1.803}}), 0) << "less than 2 %";
}

TEST(OverfitWatch, ADivergingRunIsNotOverfitting) {
  EXPECT_EQ(told_at({{2, 2.1}, {1.5, 1.8}, {3, 3.2}, {5, 5.4}, {8, 9}}), 0) << "NUM-08 names that";
}

TEST(OverfitWatch, NamesTheBestStepAndTheSet) {
  OverfitWatch watch;
  Findings found;
  for (const auto& [step, loss, eval] : {std::tuple(10, 2.0, 1.8), {20, 1.0, 1.9}, {30, 0.5, 2.4}}) {
    watch.see(step, {{"loss", loss}});
    found = watch.see(step, {{"eval_law_loss", eval}});
  }
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].key, "NUM-11 eval_law_loss");
  EXPECT_NE(found[0].verdict.what.find("1.8 at step 10, now 2.4"), std::string::npos)
      << found[0].verdict.what;
  EXPECT_NE(found[0].verdict.not_this.find("divergence"), std::string::npos);
}

TEST(OverfitWatch, AResumedRunKnowsItsPast) {
  OverfitWatch watch;
  watch.recall(base::Json::array({{{"loss", 2.0}, {"step", 10}},
                                  {{"eval_loss", 1.8}, {"step", 10}},
                                  {{"loss", 1.0}, {"step", 20}},
                                  {{"eval_loss", 1.9}, {"step", 20}},
                                  {{"loss", nullptr}, {"step", 25}}}));
  EXPECT_EQ(told_at({{0.5, 2.2}}, watch), 10);
  EXPECT_EQ(told_at({{0.5, 2.2}}), 0) << "without a past";
}

}  // namespace overfit_watch_test
}  // namespace hone::doctor
