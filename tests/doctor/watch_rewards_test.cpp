// Generation batches made by hand: what is told, how badly, and what is not.
#include "doctor/watch/watch_rewards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace hone::doctor {
namespace watch_rewards_test {

using base::Level;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Sample {
  std::vector<double> rewards;
  bool cut = false;
};

// Groups of four; advantages as GRPO's without scaling.
train::RolloutFacts batch(const std::vector<Sample>& samples, std::vector<std::string> names = {"accuracy"}) {
  constexpr std::size_t kGroup = 4;
  train::RolloutFacts out{.step = 1, .reward_names = std::move(names)};
  for (const Sample& one : samples) {
    out.completions.push_back({.prompt = "p",
                               .completion = "the answer is 4",
                               .truncated = one.cut,
                               .tokens = 20,
                               .most_common_token = "the",
                               .most_common_fraction = 0.1,
                               .rewards = one.rewards});
  }
  const auto total = [](const train::CompletionFacts& one) {
    double sum = 0;
    for (const double value : one.rewards) sum += std::isnan(value) ? 0 : value;
    return sum;
  };
  for (std::size_t begin = 0; begin < samples.size(); begin += kGroup) {
    double mean = 0;
    for (std::size_t i = begin; i < begin + kGroup; ++i) mean += total(out.completions[i]) / kGroup;
    for (std::size_t i = begin; i < begin + kGroup; ++i) {
      out.completions[i].advantage = total(out.completions[i]) - mean;
    }
  }
  return out;
}

std::vector<Sample> repeated(const std::vector<Sample>& samples, int times) {
  std::vector<Sample> out;
  for (int i = 0; i < times; ++i) out.insert(out.end(), samples.begin(), samples.end());
  return out;
}

// The worst level of each key over all batches.
std::map<std::string, base::Verdict> watched(RewardWatch watch,
                                             const std::vector<train::RolloutFacts>& batches) {
  std::map<std::string, base::Verdict> out;
  for (const auto& one : batches) {
    for (const Finding& found : watch.see(one)) {
      const auto [place, is_new] = out.emplace(found.key, found.verdict);
      if (!is_new && found.verdict.level > place->second.level) place->second = found.verdict;
    }
  }
  return out;
}

RewardWatch plain() {
  return {4, {}, false};
}

TEST(RewardWatch, SaysNothingOfAFewDeadBatches) {
  const auto dead = batch(repeated({{{0.0}}, {{0.0}}, {{0.0}}, {{0.0}}}, 5));  // 20 completions
  EXPECT_TRUE(watched(plain(), {dead, dead, dead}).empty());                   // 60
}

TEST(RewardWatch, DeadFromTheBeginningIsAFailureAfterEnough) {
  const auto dead = batch(repeated({{{0.0}}, {{0.0}}, {{0.0}}, {{0.0}}}, 8));  // 32 completions
  const auto found = watched(plain(), {dead, dead, dead});
  ASSERT_TRUE(found.contains("RL-04"));
  EXPECT_EQ(found.at("RL-04").level, Level::kWarn) << "96 completions";
  const auto later = watched(plain(), {dead, dead, dead, dead});
  EXPECT_EQ(later.at("RL-04").level, Level::kFail) << "128";
  EXPECT_NE(later.at("RL-04").evidence.find("128 completions of 4 generation batches"), std::string::npos);
  EXPECT_NE(later.at("RL-04").evidence.find("the answer is 4"), std::string::npos)
      << "the end of one is shown";
}

TEST(RewardWatch, AllCutAndDeadIsTruncation) {
  const auto cut = batch(repeated({{{0.0}, true}, {{0.0}, true}, {{0.0}, true}, {{0.0}, true}}, 16));
  const auto found = watched(plain(), {cut, cut, cut});
  ASSERT_TRUE(found.contains("RL-03"));
  EXPECT_EQ(found.at("RL-03").level, Level::kFail);
  EXPECT_FALSE(found.contains("RL-04"));
}

TEST(RewardWatch, TooEasyFromTheBeginningIsAFailureAndTheEndOfARunIsNot) {
  const auto all_right = batch(repeated({{{1.0}}, {{1.0}}, {{1.0}}, {{1.0}}}, 16));
  EXPECT_EQ(watched(plain(), {all_right, all_right, all_right}).at("RL-02").level, Level::kFail);
  const auto mixed = batch(repeated({{{0.0}}, {{1.0}}, {{0.0}}, {{1.0}}}, 16));
  EXPECT_EQ(watched(plain(), {mixed, all_right, all_right, all_right}).at("RL-02").level, Level::kNote);
}

TEST(RewardWatch, AResumedRunMayHaveLearnedBefore) {
  const auto all_right = batch(repeated({{{1.0}}, {{1.0}}, {{1.0}}, {{1.0}}}, 16));
  const RewardWatch resumed(4, {}, false, /*resumed=*/true);
  for (const auto& [key, verdict] : watched(resumed, {all_right, all_right, all_right}))
    EXPECT_LE(verdict.level, Level::kWarn) << key;
}

TEST(RewardWatch, AFirstBatchThatIsCutWithoutRewardIsNamedBeforeTheFirstUpdate) {
  const std::vector<Sample> cut = repeated({{{0.0}, true}, {{0.0}, true}, {{0.0}, true}, {{0.0}, true}}, 2);
  EXPECT_EQ(watched(plain(), {batch(cut)}).at("RL-03 first batch").level, Level::kWarn);
  std::vector<Sample> rewarded = cut;
  for (Sample& one : rewarded) one.rewards = {1.0};
  rewarded[0] = {{0.0}, false};
  EXPECT_TRUE(watched(plain(), {batch(rewarded)}).empty()) << "cut ones have their reward";
}

// The GSM8K example on SmolLM2: nothing is right for a while, then one format is found.
TEST(RewardWatch, AnEarlySuccessEndsTheStreak) {
  const auto dead = batch(repeated({{{0.0}}, {{0.0}}, {{0.0}}, {{0.0}}}, 4));  // 16 completions
  std::vector<Sample> one_right = repeated({{{0.0}}, {{0.0}}, {{0.0}}, {{0.0}}}, 4);
  one_right[3].rewards = {1.0};
  const auto found =
      watched(plain(), {dead, dead, dead, dead, dead, dead, dead, batch(one_right), dead, dead});
  for (const auto& [key, verdict] : found) EXPECT_NE(verdict.level, Level::kFail) << key;
}

TEST(RewardWatch, MostGroupsDeadIsAWarning) {
  std::vector<Sample> samples = repeated({{{0.0}}, {{0.0}}, {{0.0}}, {{0.0}}}, 10);
  samples[1].rewards = {1.0};
  const auto one = batch(samples);
  const auto found = watched(plain(), {one, one, one});
  EXPECT_EQ(found.at("RL-02").level, Level::kWarn);
  EXPECT_NE(found.at("RL-02").what.find("90 %"), std::string::npos);
}

// Prompts of a task that no reward is for have no advantage, and are no sign of a reward that never pays.
TEST(RewardWatch, GroupsWithoutAScoreAreLeftOut) {
  const std::vector<Sample> live = {{{1}}, {{0}}, {{0}}, {{1}}}, none = repeated({{{kNan}}}, 4);
  std::vector<Sample> mixed = live;
  for (int i = 0; i < 9; ++i) mixed.insert(mixed.end(), none.begin(), none.end());
  EXPECT_EQ(watched(plain(), std::vector(8, batch(mixed))).count("RL-02"), 0);
  std::vector<Sample> dead = live;
  for (int i = 0; i < 9; ++i) dead.insert(dead.end(), {{{0}}, {{0}}, {{0}}, {{0}}});
  dead.insert(dead.end(), none.begin(), none.end());
  const auto found = watched(plain(), std::vector(8, batch(dead)));
  ASSERT_EQ(found.count("RL-02"), 1);
  EXPECT_NE(found.at("RL-02").what.find("90 %"), std::string::npos) << found.at("RL-02").what;
  EXPECT_NE(found.at("RL-02").evidence.find("left out: 3 groups"), std::string::npos)
      << found.at("RL-02").evidence;
}

TEST(RewardWatch, OnlyScoredCompletionsCount) {
  // A task of another reward in every second group.
  const auto half =
      batch(repeated({{{1.0}}, {{1.0}}, {{1.0}}, {{1.0}}, {{kNan}}, {{kNan}}, {{kNan}}, {{kNan}}}, 5));
  const auto top = watched(plain(), std::vector(8, half)).at("RL-02");
  EXPECT_NE(top.what.find("every completion with a score (50 % of them) gets the highest reward, 1:"),
            std::string::npos)
      << top.what;
  const auto none = batch(repeated({{{kNan}}, {{kNan}}, {{kNan}}, {{kNan}}}, 8));
  const auto told = watched(plain(), std::vector(8, none)).at("RL-04");
  EXPECT_EQ(told.what, "no completion has a score: no advantage and no gradient");
  const auto cut = batch(repeated({{{0.5}, true}, {{kNan}}, {{1.0}}, {{kNan}, true}}, 8));
  const auto lost = watched(plain(), {cut, cut, cut}).at("RL-03");
  EXPECT_NE(lost.evidence.find("of cut ones 0.5, of those that end 1"), std::string::npos) << lost.evidence;
  const auto one_part =
      batch(repeated({{{0.0, kNan}}, {{1.0, 0.0}}, {{0.0, 0.0}}, {{1.0, kNan}}}, 8), {"accuracy", "format"});
  const auto part = watched(plain(), std::vector(5, one_part)).at("RL-04 format");
  EXPECT_NE(part.what.find("to every completion that it scored"), std::string::npos) << part.what;
}

TEST(RewardWatch, CutCompletionsThatLoseTheirRewardAreAWarning) {
  const auto cut = batch(repeated({{{0.0}, true}, {{1.0}}, {{0.0}, true}, {{1.0}}}, 8));
  EXPECT_EQ(watched(plain(), {cut, cut, cut}).at("RL-03").level, Level::kWarn);
  const auto harmless = batch(repeated({{{1.0}, true}, {{0.0}}, {{1.0}, true}, {{0.0}}}, 8));
  EXPECT_EQ(watched(plain(), {harmless, harmless, harmless}).at("RL-03").level, Level::kNote);
}

TEST(RewardWatch, NearlyAllCutWithFewLiveGroupsIsAFailure) {
  std::vector<Sample> samples = repeated({{{0.0}, true}, {{0.0}, true}, {{0.0}, true}, {{0.0}, true}}, 16);
  samples[0] = {{1.0}, false};
  const auto one = batch(samples);
  EXPECT_EQ(watched(plain(), {one, one, one}).at("RL-03").level, Level::kFail);
}

TEST(RewardWatch, AComponentThatNeverVariesIsNamed) {
  const auto one = batch(repeated({{{0.0, 0.0}}, {{1.0, 0.0}}, {{0.0, 0.0}}, {{1.0, 0.0}}}, 8),
                         {"accuracy", "strict_format"});
  const auto found = watched(plain(), {one, one, one});
  ASSERT_TRUE(found.contains("RL-04 strict_format"));
  EXPECT_EQ(found.at("RL-04 strict_format").level, Level::kWarn);
  EXPECT_NE(found.at("RL-04 strict_format").what.find("strict_format gave 0 to every completion"),
            std::string::npos);
  EXPECT_FALSE(found.contains("RL-04 accuracy"));
}

TEST(RewardWatch, NoneIsNoValue) {
  const auto one = batch(repeated({{{kNan}}, {{kNan}}, {{kNan}}, {{kNan}}}, 8));
  RewardWatch watch = plain();
  watch.see(one);
  EXPECT_EQ(watch.lowest(), watch.highest());
}

TEST(RewardWatch, OneComponentOfTheTotal) {
  // The format is worth 10 and always nearly there; accuracy seldom.
  std::vector<Sample> samples = repeated({{{10.0, 0.0}}, {{10.0, 0.0}}, {{9.0, 0.0}}, {{10.0, 0.0}}}, 5);
  samples[1].rewards = {10.0, 1.0};
  const auto one = batch(samples, {"format", "accuracy"});
  const auto found = watched(plain(), std::vector<train::RolloutFacts>(8, one));
  ASSERT_TRUE(found.contains("RL-07 format"));
  EXPECT_EQ(found.at("RL-07 format").level, Level::kWarn);
}

TEST(RewardWatch, AHighRewardIsANote) {
  const auto mixed = batch(repeated({{{0.0}}, {{1.0}}, {{0.0}}, {{1.0}}}, 5));
  const auto good =
      batch(repeated({{{1.0}}, {{1.0}}, {{1.0}}, {{1.0}}, {{0.0}}, {{1.0}}, {{1.0}}, {{1.0}}}, 3));
  std::vector<train::RolloutFacts> batches = {mixed};
  batches.insert(batches.end(), 8, good);
  const auto found = watched(plain(), batches);
  ASSERT_TRUE(found.contains("RL-07 ceiling"));
  EXPECT_EQ(found.at("RL-07 ceiling").level, Level::kNote);
}

TEST(RewardWatch, RepetitionIsAFailure) {
  auto one = batch(repeated({{{0.0}}, {{1.0}}, {{0.0}}, {{1.0}}}, 8));
  for (auto& sample : one.completions) {
    sample.most_common_token = "!";
    sample.most_common_fraction = 0.95;
  }
  const auto found = watched(plain(), {one, one, one});
  ASSERT_TRUE(found.contains("RL-08 repeats"));
  EXPECT_EQ(found.at("RL-08 repeats").level, Level::kFail);
  EXPECT_NE(found.at("RL-08 repeats").evidence.find("\"!\""), std::string::npos);
}

TEST(RewardWatch, AHealthyRunIsSilent) {
  std::vector<train::RolloutFacts> batches;
  for (int i = 0; i < 12; ++i) {
    std::vector<Sample> samples = repeated({{{0.0, 0.0}}, {{1.0, 0.5}}, {{0.0, 0.5}}, {{1.0, 0.0}}}, 4);
    samples[0].cut = true;
    batches.push_back(batch(samples, {"accuracy", "format"}));
  }
  EXPECT_TRUE(watched(plain(), batches).empty());
}

}  // namespace watch_rewards_test
}  // namespace hone::doctor
