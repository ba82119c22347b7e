// sample_prompts and eval_reward_funcs: what they mean together with other options, and what is refused.
#include "config/helpers.h"

namespace hone::config {
namespace samples_plan_test {

using Words = std::vector<std::string>;

class SamplesPlanTest : public ConfigTest {
 protected:
  // With rows to evaluate.
  Plan evaluated(Words more) {
    more.insert(more.end(), {"--eval_strategy", "steps", "--eval_dataset", path("rows/test.jsonl")});
    return run(more);
  }
};

TEST_F(SamplesPlanTest, PromptsAreTextsANumberOrAFile) {
  const Plan none = run();
  EXPECT_FALSE(none.samples_prompts());
  EXPECT_EQ(none.sample_max_new_tokens, 0);
  const Plan texts = run({"--sample_prompts", "What is 2 + 3?", "4"});
  EXPECT_EQ(texts.sample_texts, (Words{"What is 2 + 3?", "4"})) << "a number is one only by itself";
  EXPECT_EQ(texts.sample_rows, 0);
  EXPECT_EQ(texts.sample_max_new_tokens, 256);
  const Plan rows = run_yaml("sample_prompts: 4\nsample_max_new_tokens: 9\n");
  EXPECT_EQ(rows.sample_rows, 4);
  EXPECT_TRUE(rows.sample_texts.empty());
  EXPECT_EQ(rows.sample_max_new_tokens, 9);
  const std::string file = write("prompts.jsonl", "{\"prompt\": \"a\"}\n");
  EXPECT_EQ(run({"--sample_prompts", file}).sample_file, file);
}

TEST_F(SamplesPlanTest, AMethodThatSamplesHasItsOwnLength) {
  EXPECT_EQ(grpo({"--sample_prompts", "a", "--max_completion_length", "33"}).sample_max_new_tokens, 33);
  EXPECT_EQ(grpo({"--sample_prompts", "a", "--sample_max_new_tokens", "7"}).sample_max_new_tokens, 7);
}

TEST_F(SamplesPlanTest, WrongPromptsAreRefused) {
  EXPECT_NE(run_error({"--sample_prompts", "a", ""}).find("prompts in sample_prompts"), std::string::npos);
  for (const char* rows : {"0", "1001", "99999999999999999999"})
    EXPECT_NE(run_error({"--sample_prompts", rows}).find("from 1 to 1000 rows"), std::string::npos) << rows;
  EXPECT_NE(run_error({"--sample_prompts", path("none.jsonl")}).find("none.jsonl"), std::string::npos);
  EXPECT_NE(run_error({"--sample_prompts", "a", "--sample_steps", "0"}).find("at least 1"),
            std::string::npos);
}

TEST_F(SamplesPlanTest, ARewardModelGeneratesNothing) {
  for (const char* option : {"--sample_prompts", "--eval_reward_funcs"}) {
    EXPECT_NE(reward_error({option, "exact_match"}).find("a reward model generates no completions"),
              std::string::npos)
        << option;
  }
}

TEST_F(SamplesPlanTest, RewardsOfAnEvaluationNeedOne) {
  const std::string refused = run_error({"--eval_reward_funcs", "exact_match"});
  EXPECT_NE(refused.find("an evaluation, with eval_reward_funcs"), std::string::npos) << refused;
  const Plan plan =
      evaluated({"--eval_reward_funcs", "exact_match", "length(target=9)", "--eval_reward_rows", "20"});
  EXPECT_EQ(plan.eval_reward_funcs, (Words{"exact_match", "length(target=9)"}));
  EXPECT_EQ(plan.eval_reward_rows, 20);
  EXPECT_EQ(plan.sample_max_new_tokens, 256);
  EXPECT_TRUE(plan.notes.empty());
  EXPECT_NE(error_of([&] {
              evaluated({"--eval_reward_funcs", path("none.py") + ":score"});
            }).find("eval_reward_funcs"),
            std::string::npos);
}

TEST_F(SamplesPlanTest, WhatHasNoEffectIsNoted) {
  const Plan plan = run({"--sample_steps", "5", "--eval_reward_rows", "5", "--sample_max_new_tokens", "5"});
  ASSERT_EQ(plan.notes.size(), 3U);
  EXPECT_EQ(plan.notes[0], "sample_steps: not used without sample_prompts");
  EXPECT_EQ(plan.notes[1], "eval_reward_rows: not used without eval_reward_funcs");
  EXPECT_EQ(plan.notes[2], "sample_max_new_tokens: not used without sample_prompts or eval_reward_funcs");
}

}  // namespace samples_plan_test
}  // namespace hone::config
