#include "config/helpers.h"
#include "config/option_table.h"
#include "config/write_plan.h"

namespace hone::config {
namespace reference_plan_test {

using ReferencePlanTest = ConfigTest;
using Words = std::vector<std::string>;

const Words kMoving = {"--no_use_peft", "--sync_ref_model"};

Words operator+(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void expect_parts(const std::string& message, const Words& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
}

TEST_F(ReferencePlanTest, EveryOptionReachesThePlan) {
  write("other/config.json", "{}");
  for (const Plan& plan : {dpo({"--ref_model", path("other")}), kto({"--ref_model", path("other")}),
                           online_dpo({"--ref_model", path("other")})}) {
    EXPECT_EQ(plan.ref_model, path("other"));
    EXPECT_FALSE(plan.ref_precision);
  }
  const auto precision = [&](const Words& more) {
    return dpo(Words{"--ref_model", path("other")} + more).ref_precision;
  };
  EXPECT_EQ(precision({"--ref_model_dtype", "bfloat16"}), Precision::kBFloat16);
  EXPECT_EQ(precision({"--ref_model_dtype", "float32"}), Precision::kAutocast);
  EXPECT_EQ(precision({"--ref_model_dtype", "float32", "--bf16", "false"}), Precision::kFloat32);
  const Plan moving = dpo(kMoving + Words{"--ref_model_mixup_alpha", "0.3", "--ref_model_sync_steps", "7"});
  EXPECT_TRUE(moving.sync_ref_model);
  EXPECT_EQ(moving.ref_model_mixup_alpha, 0.3);
  EXPECT_EQ(moving.ref_model_sync_steps, 7);
  EXPECT_TRUE(grpo(kMoving + Words{"--beta", "0.1"}).sync_ref_model);
}

TEST_F(ReferencePlanTest, PlanYamlGivesTheSamePlan) {
  write("other/config.json", "{}");
  const Plan plan =
      kto({"--ref_model", path("other"), "--ref_model_dtype", "bfloat16", "--output_dir", path("out")});
  EXPECT_EQ(parse_run(Method::kKto, {"--config", write("plan.yaml", write_plan(plan))}), plan);
}

// What TRL's constructors raise.
TEST_F(ReferencePlanTest, WhatCannotMoveIsAnError) {
  expect_parts(dpo_error({"--sync_ref_model"}),
               {"use_peft: true", "TRL refuses it with PEFT", "use_peft: false"});
  expect_parts(kto_error(kMoving + Words{"--precompute_ref_log_probs"}),
               {"sync_ref_model or precompute_ref_log_probs"});
  expect_parts(grpo_error(kMoving), {"beta above 0 with sync_ref_model", "no reference that could move"});
  write("other/config.json", "{}");
  expect_parts(dpo_error(kMoving + Words{"--ref_model", path("other"), "--freeze_embeddings"}),
               {"all weights trained"});
  expect_parts(dpo_error(kMoving + Words{"--ref_model_mixup_alpha", "1.5"}),
               {"ref_model_mixup_alpha", "from 0 to 1"});
  expect_parts(dpo_error(kMoving + Words{"--ref_model_sync_steps", "0"}),
               {"ref_model_sync_steps", "at least 1"});
}

TEST_F(ReferencePlanTest, OtherMethodsHaveNone) {
  expect_parts(grpo_error({"--ref_model", "a"}), {"ref_model", "takes no other reference"});
  expect_parts(run_error({"--ref_model", "a"}), {"ref_model", "has no reference"});
  expect_parts(reward_error({"--ref_model", "a"}), {"has no reference"});
  expect_parts(dpo_error({"--ref_model", path("nowhere")}), {"ref_model", "does not exist"});
}

TEST_F(ReferencePlanTest, WhatHasNoEffectIsTold) {
  const auto notes = [&](const Words& words) {
    std::string out;
    for (const std::string& note : dpo(words).notes) out += note + "\n";
    return out;
  };
  expect_parts(notes({"--ref_model_sync_steps", "4"}),
               {"ref_model_sync_steps: not used, sync_ref_model is false"});
  expect_parts(notes({"--ref_model_dtype", "bfloat16"}), {"ref_model_dtype: not used without ref_model"});
  expect_parts(notes(kMoving + Words{"--zero_stage", "3"}),
               {"zero_stage 3: 2 here", "a reference that moves"});
}

}  // namespace reference_plan_test
}  // namespace hone::config
