#include "config/helpers.h"
#include "config/option_table.h"
#include "config/write_plan.h"

namespace hone::config {
namespace preference_plan_test {

using PreferencePlanTest = ConfigTest;
using Words = std::vector<std::string>;

TEST_F(PreferencePlanTest, DefaultsAreTrls) {
  const Plan plan = dpo();
  Plan expected = expected_plan(Method::kDpo);
  expected.learning_rate = 1e-6;
  expected.disable_dropout = true;
  expected.lora_dropout = 0;  // disable_dropout
  expected.resolved = plan.resolved;
  EXPECT_EQ(plan, expected);
  EXPECT_TRUE(plan.notes.empty());
}

// Each option of DPO alone, with the smallest change to it.
TEST_F(PreferencePlanTest, EveryOptionReachesThePlan) {
  PreferencePlan expected;
  const auto expect = [&](const Words& words) { EXPECT_EQ(dpo(words).preference, expected) << words[0]; };
  expected.loss_type = {"sigmoid", "sft"};
  expect({"--loss_type", "sigmoid", "sft"});
  expected.loss_weights = {0.8, 0.2};
  expect({"--loss_type", "sigmoid", "sft", "--loss_weights", "0.8", "0.2"});
  expected = {};
  expected.beta = 0.3;
  expect({"--beta", "0.3"});
  expected = {};
  expected.f_divergence_type = "alpha_divergence";
  expected.f_alpha_divergence_coef = 0.7;
  expect({"--f_divergence_type", "alpha_divergence", "--f_alpha_divergence_coef", "0.7"});
  expected = {};
  expected.loss_type = {"robust"};
  expected.label_smoothing = 0.1;
  expect({"--loss_type", "robust", "--label_smoothing", "0.1"});
  expected = {};
  expected.ld_alpha = 0;
  expect({"--ld_alpha", "0"});
  expected = {};
  expected.use_weighting = true;
  expect({"--use_weighting"});
  expected = {};
  expected.loss_type = {"discopop"};
  expected.discopop_tau = 0.1;
  expect({"--loss_type", "discopop", "--discopop_tau", "0.1"});
  const Plan precomputed = dpo({"--precompute_ref_log_probs", "--precompute_ref_batch_size", "4"});
  EXPECT_TRUE(precomputed.precompute_ref_log_probs);
  EXPECT_EQ(precomputed.precompute_ref_batch_size, 4);
  EXPECT_EQ(dpo({"--truncation_mode", "keep_end"}).truncation_mode, "keep_end");
  EXPECT_FALSE(dpo({"--no_disable_dropout"}).disable_dropout);
  EXPECT_FALSE(dpo({"--no_share_prompt"}).share_prompt);
  EXPECT_EQ(dpo({"--no_disable_dropout"}).lora_dropout, 0.05);
  EXPECT_EQ(dpo({"--max_length", "null"}).max_length, 0);
  EXPECT_EQ(dpo({"--data_seed", "3"}).data_seed, 3);
}

TEST_F(PreferencePlanTest, PlanYamlGivesTheSamePlan) {
  const Plan plan = dpo({"--loss_type", "sigmoid", "exo_pair", "--loss_weights", "1", "0.5",
                         "--label_smoothing", "0.001", "--ld_alpha", "0.5", "--output_dir", path("out")});
  const std::string yaml = write("plan.yaml", write_plan(plan));
  EXPECT_EQ(parse_run(Method::kDpo, {"--config", yaml}), plan);
}

void expect_parts(const std::string& message, const Words& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << "\nin: " << message;
}

TEST_F(PreferencePlanTest, WhatDoesNotGoTogetherIsAnError) {
  expect_parts(dpo_error({"--loss_type", "sigmod"}), {"--loss_type", "sigmod", "Did you mean", "sigmoid"});
  expect_parts(dpo_error({"--loss_weights", "1", "2"}),
               {"one of loss_weights for each loss_type, 1", "found:  2"});
  expect_parts(dpo_error({"--loss_weights", "much"}), {"numbers for option loss_weights"});
  expect_parts(dpo_error({"--loss_type", "apo_zero", "--f_divergence_type", "forward_kl"}),
               {"reverse_kl", "apo_zero"});
  expect_parts(dpo_error({"--loss_type", "aot", "--use_weighting"}), {"aot", "use_weighting: false"});
  expect_parts(dpo_error({"--loss_type", "exo_pair"}), {"label_smoothing above 0", "0.001"});
  expect_parts(dpo_error({"--loss_type", "robust", "--label_smoothing", "0.5"}), {"below 0.5"});
  expect_parts(dpo_error({"--beta", "0"}), {"beta", "above 0"});
  expect_parts(dpo_error({"--ld_alpha", "1.5"}), {"ld_alpha", "from 0 to 1"});
  expect_parts(dpo_error({"--rpo_alpha", "1"}), {"loss_type: [sigmoid, sft]"});
  expect_parts(dpo_error({"--assistant_only_loss"}), {"assistant_only_loss", "sft"});
  expect_parts(dpo_error({"--num_generations", "4"}), {"num_generations", "grpo, rloo"});
  EXPECT_EQ(dpo({"--max_prompt_length", "4"}).max_prompt_length, 4);
}

TEST_F(PreferencePlanTest, WhatHasNoEffectIsTold) {
  const auto notes = [&](const Words& words) {
    std::string out;
    for (const std::string& note : dpo(words).notes) out += note + "\n";
    return out;
  };
  expect_parts(notes({"--label_smoothing", "0.1"}), {"label_smoothing: not used"});
  expect_parts(notes({"--discopop_tau", "0.1"}), {"discopop_tau: not used"});
  expect_parts(notes({"--precompute_ref_batch_size", "4"}), {"precompute_ref_batch_size: not used"});
  expect_parts(notes({"--padding_free"}), {"hone never pads"});
  expect_parts(notes({"--loss_type", "aot", "--per_device_train_batch_size", "1"}), {"one pair"});
}

}  // namespace preference_plan_test
}  // namespace hone::config
