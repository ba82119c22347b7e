#include <map>

#include "config/helpers.h"
#include "config/option_table.h"
#include "config/write_plan.h"

namespace hone::config {
namespace {

using PolicyPlanTest = ConfigTest;

TEST_F(PolicyPlanTest, GrpoDefaultsAreTrls) {
  const Plan plan = grpo();
  Plan expected;  // plan.h states TRL's defaults; the frozen table holds the table to them
  expected.method = Method::kGrpo;
  expected.use_peft = true;
  expected.model_name_or_path = path("model");
  expected.dataset_name = path("train.jsonl");
  expected.output_dir = "trainer_output";
  expected.learning_rate = 1e-6;
  expected.max_length = 0;
  expected.shuffle_dataset = true;
  expected.dataloader_drop_last = true;
  expected.policy.reward_funcs = {"accuracy_reward"};
  expected.policy.epsilon_high = 0.2;
  expected.resolved = plan.resolved;
  EXPECT_EQ(plan, expected);
  EXPECT_TRUE(plan.notes.empty());
}

TEST_F(PolicyPlanTest, RlooDefaultsAreTrls) {
  const PolicyPlan plan = policy(Method::kRloo).policy;
  PolicyPlan expected;
  expected.num_generations = 2;
  expected.num_generations_eval = 2;
  expected.beta = 0.05;
  expected.epsilon_high = 0.2;
  expected.loss_type = "rloo";
  expected.importance_sampling_level = "sequence";
  expected.scale_rewards = "none";
  expected.reward_funcs = {"accuracy_reward"};
  EXPECT_EQ(plan, expected);
}

}  // namespace
}  // namespace hone::config
