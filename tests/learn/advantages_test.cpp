#include "learn/advantages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace hone::learn {
namespace advantages_test {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const nlohmann::json& cases() {
  static const nlohmann::json value = [] {
    std::ifstream file(HONE_FIXTURES "/parity/learn/advantages.json");
    return nlohmann::json::parse(file)["cases"];
  }();
  return value;
}

double number(const nlohmann::json& value) {
  return value.is_null() ? kNan : value.get<double>();
}

std::vector<double> flat(const nlohmann::json& rows) {
  std::vector<double> out;
  for (const auto& row : rows)
    for (const auto& one : row) out.push_back(number(one));
  return out;
}

Advantages computed(const nlohmann::json& recorded) {
  const auto& options = recorded["options"];
  const std::vector<double> rewards = flat(recorded["rewards"]);
  const std::vector<double> weights = options.value("reward_weights", std::vector<double>{});
  const RewardTable table{.rewards = rewards,
                          .functions = recorded["functions"],
                          .group_size = recorded["group_size"],
                          .weights = weights};
  if (recorded["trainer"] == "grpo") {
    GrpoAdvantageOptions own;
    const std::string scale = options.value("scale_rewards", "group");
    if (scale != "group") own.scale_rewards = scale == "batch" ? ScaleRewards::kBatch : ScaleRewards::kNone;
    if (options.contains("multi_objective_aggregation")) own.aggregation = Aggregation::kNormalizeThenSum;
    return grpo_advantages(table, own);
  }
  const std::vector<double> kl = recorded.value("kl", std::vector<double>{});
  RlooAdvantageOptions own{
      .normalize_advantages = options["normalize_advantages"], .beta = options["beta"], .kl = kl};
  if (options.contains("reward_clip_range"))
    own.reward_clip_range = {options["reward_clip_range"][0], options["reward_clip_range"][1]};
  return rloo_advantages(table, own);
}

void expect_near(double found, double expected, const std::string& what) {
  if (std::isnan(expected))
    EXPECT_TRUE(std::isnan(found)) << what << ": " << found;
  else
    EXPECT_NEAR(found, expected, 1e-6 * std::max(1.0, std::abs(expected))) << what;
}

TEST(Advantages, EqualTrl) {
  ASSERT_GE(cases().size(), 26U);
  for (const auto& [name, recorded] : cases().items()) {
    SCOPED_TRACE(name);
    const Advantages found = computed(recorded);
    const auto& expected = recorded["advantages"];
    ASSERT_EQ(found.advantages.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_near(found.advantages[i], number(expected[i]), "row " + std::to_string(i));
    const auto& metrics = recorded["metrics"];
    expect_near(found.reward, number(metrics["reward"]), "reward");
    expect_near(found.reward_std, number(metrics["reward_std"]), "reward_std");
    expect_near(found.frac_reward_zero_std, number(metrics["frac_reward_zero_std"]), "frac_reward_zero_std");
    for (std::size_t k = 0; k < found.function_mean.size(); ++k) {
      const std::string key = "rewards/f" + std::to_string(k);
      expect_near(found.function_mean[k], number(metrics[key + "/mean"]), key);
      expect_near(found.function_std[k], number(metrics[key + "/std"]), key);
    }
  }
}

TEST(Advantages, DeadGroupsAreCountedAndExactlyZero) {
  const std::vector<double> rewards{0.1, 0.1,  0.1,  0.7, 0.7,  0.7,  0.1, 0.2,
                                    0.7, kNan, kNan, 5,   kNan, kNan, kNan};
  const RewardTable table{.rewards = rewards, .group_size = 3};
  std::vector<Advantages> all;
  for (const auto scale : {ScaleRewards::kGroup, ScaleRewards::kBatch, ScaleRewards::kNone})
    all.push_back(grpo_advantages(table, {.scale_rewards = scale}));
  all.push_back(grpo_advantages(table, {.aggregation = Aggregation::kNormalizeThenSum}));
  for (const bool normalize : {false, true})
    all.push_back(rloo_advantages(table, {.normalize_advantages = normalize}));
  for (const Advantages& one : all) {
    EXPECT_EQ(one.dead_groups, 4);
    EXPECT_EQ(one.unscorable_rows, 5);
    for (std::size_t i = 0; i < rewards.size(); ++i)
      EXPECT_EQ(one.advantages[i] == 0, i < 6 || i > 8) << i << ": " << one.advantages[i];
  }
}

TEST(Advantages, EqualRewardsOfAnyValueTeachNothing) {
  const std::vector<double> weights{0.3, 0.7, -0.11};
  std::vector<double> rewards;
  for (int group = 0; group < 50; ++group)
    for (int row = 0; row < 7; ++row)
      for (int k = 0; k < 3; ++k)
        rewards.push_back(std::sin(10.0 * group + k) * std::pow(10.0, k - group % 5));
  const RewardTable table{.rewards = rewards, .functions = 3, .group_size = 7, .weights = weights};
  EXPECT_EQ(grpo_advantages(table, {}).dead_groups, 50);
  EXPECT_EQ(grpo_advantages(table, {.aggregation = Aggregation::kNormalizeThenSum}).dead_groups, 50);
  EXPECT_EQ(rloo_advantages(table, {}).dead_groups, 50);
}

TEST(Advantages, OneGenerationAPrompt) {  // evaluation only
  const std::vector<double> rewards{1, 2, 4};
  const RewardTable table{.rewards = rewards};
  EXPECT_EQ(grpo_advantages(table, {}).dead_groups, 3);
  EXPECT_EQ(rloo_advantages(table, {}).dead_groups, 3);
  EXPECT_EQ(rloo_advantages(table, {}).frac_reward_zero_std, 1.0);
  EXPECT_NEAR(grpo_advantages(table, {}).reward_std, std::sqrt(7.0 / 3.0), 1e-12);
}

TEST(Advantages, RefusesWhatMustNotReachTheWeights) {
  const std::vector<double> rewards{1, 2, 3, std::numeric_limits<double>::infinity()};
  EXPECT_THROW(grpo_advantages({.rewards = rewards, .group_size = 2}, {}), base::InternalError);
  const std::vector<double> large{1, 1e39};  // infinite in fp32
  EXPECT_THROW(grpo_advantages({.rewards = large, .group_size = 2}, {}), base::InternalError);
  const std::vector<double> three{1, 2, 3};
  EXPECT_THROW(grpo_advantages({.rewards = three, .group_size = 2}, {}), base::InternalError);
  EXPECT_THROW(grpo_advantages({.rewards = three, .group_size = 3, .weights = three}, {}),
               base::InternalError);
  EXPECT_THROW(grpo_advantages({}, {}), base::InternalError);
  EXPECT_THROW(rloo_advantages({.rewards = three, .group_size = 3}, {.beta = 0.1}), base::InternalError);
}

}  // namespace advantages_test
}  // namespace hone::learn
