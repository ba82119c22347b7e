#include "config/helpers.h"
#include "config/method_of.h"
#include "config/option_table.h"
#include "config/write_plan.h"

namespace hone::config {
namespace reward_model_plan_test {

using RewardModelPlanTest = ConfigTest;
using Words = std::vector<std::string>;

TEST_F(RewardModelPlanTest, DefaultsAreTrls) {
  const Plan plan = reward();
  Plan expected = expected_plan(Method::kReward);
  expected.learning_rate = 1e-4;
  expected.disable_dropout = true;
  expected.lora_dropout = 0;  // disable_dropout
  expected.resolved = plan.resolved;
  EXPECT_EQ(plan, expected);
  EXPECT_TRUE(plan.notes.empty());
}

TEST_F(RewardModelPlanTest, EveryOptionReachesThePlan) {
  RewardModelPlan expected;
  const auto expect = [&](const Words& words) { EXPECT_EQ(reward(words).reward, expected) << words[0]; };
  expected.center_rewards_coefficient = 0.01;
  expect({"--center_rewards_coefficient", "0.01"});
  expected = {};
  expected.pad_token = "<pad>";
  expect({"--pad_token", "<pad>"});
  EXPECT_FALSE(reward({"--no_disable_dropout"}).disable_dropout);
  EXPECT_FALSE(reward({"--no_share_prompt"}).share_prompt);
  expected = {};
  expect({"--lora_task_type", "SEQ_CLS", "--lora_modules_to_save", "score"});
  EXPECT_EQ(reward({"--max_length", "null"}).max_length, 0);
  EXPECT_EQ(reward({"--eos_token", "<end>"}).eos_token, "<end>");
  EXPECT_EQ(reward({"--chat_template_path", path("template.jinja")}).chat_template_path,
            path("template.jinja"));
}

TEST_F(RewardModelPlanTest, WhatCannotBe) {
  EXPECT_NE(
      reward_error({"--lora_modules_to_save", "lm_head"}).find("expected score in lora_modules_to_save"),
      std::string::npos);
  EXPECT_NE(reward_error({"--lora_task_type", "TOKEN_CLS"}).find("lora_task_type"), std::string::npos);
  EXPECT_NE(reward_error({"--beta", "0.1"}).find("dpo"), std::string::npos);
  EXPECT_NE(reward_error({"--center_rewards_coefficient", "-1"}).find("at least 0"), std::string::npos);
}

TEST_F(RewardModelPlanTest, IsItsOwnRunAgain) {
  const Plan plan = reward({"--center_rewards_coefficient", "0.5", "--max_length", "77"});
  const std::string yaml = write_plan(plan);
  EXPECT_EQ(method_of(yaml), Method::kReward);
  EXPECT_EQ(parse_run_text(Method::kReward, yaml, "plan.yaml"), plan);
}

}  // namespace reward_model_plan_test
}  // namespace hone::config
