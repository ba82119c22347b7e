// RL-19: a KL that is in one place of the completions, and runs whose KL only looks like it.
#include "doctor/watch/depth_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "doctor/watch/watch_state.h"
#include "train/batches/kl_by_depth.h"

namespace hone::doctor {
namespace depth_watch_test {

// 16 completions of `length` tokens; `gap` gives o - r of a token by its place.
train::RolloutBatch batch(std::size_t length, const std::function<float(std::size_t)>& gap) {
  train::RolloutBatch out;
  for (int i = 0; i < 16; ++i) {
    train::RolloutSample one;
    for (std::size_t t = 0; t < length; ++t) {
      one.ids.push_back(5);
      one.old_logprobs.push_back(-1);
      one.ref_logprobs.push_back(-1 - gap(t));
    }
    out.samples.push_back(one);
  }
  return out;
}

float at_start(std::size_t t) {
  return t < 2 ? 3.0F : 0.1F;
}

Findings told(const train::RolloutBatch& of, int batches = 8) {
  DepthWatch watch;
  for (int i = 0; i < batches; ++i) {
    Findings found = watch.see(train::kl_by_depth(of));
    if (!found.empty()) return found;
  }
  return {};
}

TEST(KlByDepth, IsTheMetricInEighths) {
  const train::KlByDepth found = train::kl_by_depth(batch(24, at_start));
  EXPECT_EQ(found.tokens, 16 * 24);
  const auto kl = [](double gap) { return std::exp(-gap) + gap - 1; };
  EXPECT_NEAR(found.sums[0], 16 * (2 * kl(3) + kl(0.1)), 1e-4);
  for (std::size_t part = 1; part < 8; ++part) EXPECT_NEAR(found.sums[part], 16 * 3 * kl(0.1), 1e-4) << part;
}

TEST(KlByDepth, LeavesOutWhatHasNoEighthsOrNoReference) {
  EXPECT_EQ(train::kl_by_depth(batch(7, at_start)).tokens, 0);
  train::RolloutBatch unknown = batch(24, at_start);
  for (auto& one : unknown.samples) one.ref_logprobs.clear();
  EXPECT_EQ(train::kl_by_depth(unknown).tokens, 0);
  train::RolloutBatch replayed = batch(24, at_start);
  for (auto& one : replayed.samples) one.old_logprobs.clear();
  EXPECT_EQ(train::kl_by_depth(replayed).tokens, 0);
}

TEST(DepthWatch, NamesTheFirstTokens) {
  const Findings found = told(batch(24, at_start));
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].key, "RL-19");
  EXPECT_EQ(found[0].verdict.level, base::Level::kWarn);
  EXPECT_NE(found[0].verdict.what.find("in the first eighth"), std::string::npos) << found[0].verdict.what;
  EXPECT_NE(found[0].verdict.cause.find("generation prompt"), std::string::npos);
}

TEST(DepthWatch, NamesTheEndAndTheMiddle) {
  const Findings last = told(batch(24, [](std::size_t t) { return t > 21 ? 3.0F : 0.1F; }));
  ASSERT_EQ(last.size(), 1);
  EXPECT_NE(last[0].verdict.what.find("in the last eighth"), std::string::npos) << last[0].verdict.what;
  EXPECT_NE(last[0].verdict.cause.find("end token"), std::string::npos);
  const Findings middle = told(batch(24, [](std::size_t t) { return t == 10 ? 3.0F : 0.1F; }));
  ASSERT_EQ(middle.size(), 1);
  EXPECT_NE(middle[0].verdict.what.find("in the fourth eighth"), std::string::npos) << middle[0].verdict.what;
}

TEST(DepthWatch, NamesAnOpeningThatIsAlwaysTheSame) {
  const Findings found = told(batch(24, [](std::size_t t) { return t < 15 ? 0.0F : t < 18 ? 2.0F : 0.5F; }));
  ASSERT_EQ(found.size(), 1);
  EXPECT_NE(found[0].verdict.what.find("in the sixth eighth"), std::string::npos) << found[0].verdict.what;
  EXPECT_NE(found[0].verdict.cause.find("begin with the same text"), std::string::npos)
      << found[0].verdict.cause;
}

TEST(DepthWatch, SaysNothingOfHealthyRuns) {
  EXPECT_TRUE(told(batch(24, [](std::size_t) { return 1.0F; })).empty()) << "everywhere";
  EXPECT_TRUE(told(batch(24, [](std::size_t t) { return t < 6 ? 1.0F : 0.4F; })).empty()) << "in two eighths";
  EXPECT_TRUE(told(batch(24, [](std::size_t t) { return t < 2 ? 0.5F : 0.0F; })).empty()) << "a small KL";
  EXPECT_TRUE(told(batch(7, at_start)).empty()) << "short answers";
  EXPECT_TRUE(told(batch(24, at_start), 4).empty()) << "four batches";
}

TEST(DepthWatch, APartOfAnotherBatchBeginsAgain) {
  DepthWatch watch;
  const auto early = train::kl_by_depth(batch(24, at_start));
  const auto late = train::kl_by_depth(batch(24, [](std::size_t t) { return t > 21 ? 3.0F : 0.1F; }));
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(watch.see(i % 3 == 0 ? late : early).empty()) << i;
}

TEST(DepthWatch, GoesOnFromItsState) {
  const auto kl = train::kl_by_depth(batch(24, at_start));
  DepthWatch watch;
  EXPECT_FALSE(watch.has_seen());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(watch.see(kl).empty());
  DepthWatch resumed;
  resumed.restore(watch.state());
  EXPECT_EQ(resumed.see(kl).size(), 1);
  DepthWatch other;
  EXPECT_THROW(other.restore({{"part", 8}, {"batches", 1}}), BadWatchState);
  EXPECT_THROW(other.restore({{"part", 0}, {"batches", -1}}), BadWatchState);
}

}  // namespace depth_watch_test
}  // namespace hone::doctor
