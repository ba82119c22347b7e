#include "config/helpers.h"
#include "config/option_table.h"
#include "config/write_plan.h"

namespace hone::config {
namespace online_dpo_plan_test {

using OnlineDpoPlanTest = ConfigTest;
using Words = std::vector<std::string>;

TEST_F(OnlineDpoPlanTest, DefaultsAreTrls) {
  const Plan plan = online_dpo();
  Plan expected = expected_plan(Method::kOnlineDpo);
  expected.learning_rate = 5e-7;
  expected.lora_dropout = 0;  // disable_dropout
  expected.max_length = 512;
  expected.policy.num_generations = expected.policy.num_generations_eval = 2;
  expected.policy.generation_batch_size = 16;
  expected.policy.max_completion_length = 64;
  expected.policy.temperature = 0.9;
  expected.disable_dropout = true;
  expected.policy.reward_funcs = {"accuracy_reward"};
  expected.resolved = plan.resolved;
  EXPECT_EQ(plan, expected);
  EXPECT_TRUE(plan.notes.empty());
}

// Each option of Online DPO alone, with the smallest change to it.
TEST_F(OnlineDpoPlanTest, EveryOptionReachesThePlan) {
  EXPECT_EQ(online_dpo({"--beta", "0.3"}).online.beta, std::vector<double>{0.3});
  EXPECT_EQ(online_dpo({"--beta", "0.3", "0.1"}).online.beta, (std::vector<double>{0.3, 0.1}));
  EXPECT_EQ(online_dpo({"--loss_type", "ipo"}).online.loss_type, "ipo");
  EXPECT_EQ(online_dpo({"--missing_eos_penalty", "2"}).online.missing_eos_penalty, 2);
  EXPECT_TRUE(online_dpo({"--skip_ties"}).online.skip_ties);
  EXPECT_EQ(online_dpo({"--max_new_tokens", "100"}).policy.max_completion_length, 100);
  EXPECT_EQ(online_dpo({"--max_length", "99"}).max_length, 99);
  EXPECT_EQ(online_dpo({"--temperature", "1.5"}).policy.temperature, 1.5);
  EXPECT_EQ(online_dpo({"--generation_kwargs", R"({"min_new_tokens": 3})"}).policy.min_new_tokens, 3);
  EXPECT_FALSE(online_dpo({"--no_disable_dropout", "--lora_dropout", "0.1"}).disable_dropout);
  EXPECT_EQ(online_dpo({"--gradient_accumulation_steps", "3"}).policy.generation_batch_size, 48);
  EXPECT_EQ(online_dpo({"--reward_model_path", path("model")}).policy.reward_funcs,
            (Words{path("model"), "accuracy_reward"}));
  EXPECT_EQ(online_dpo({"--train_sampling_strategy", "sequential"}).train_sampling_strategy,
            RowOrder::kSequential);
  EXPECT_EQ(online_dpo({"--reward_weights", "2"}).policy.reward_weights, std::vector<double>{2});
  const Plan judged = online_dpo({"--judge", "http://localhost:8000/v1", "--judge_model", "wise",
                                  "--judge_prompt", "{prompt} {first} {second}"});
  EXPECT_EQ(judged.online.judge, "http://localhost:8000/v1");
  EXPECT_EQ(judged.online.judge_model, "wise");
  EXPECT_EQ(judged.online.judge_prompt, "{prompt} {first} {second}");
  EXPECT_TRUE(judged.policy.reward_funcs.empty());
}

TEST_F(OnlineDpoPlanTest, ThePlanIsReadBackAsItWas) {
  const Plan plan =
      online_dpo({"--beta", "0.3", "0.1", "--missing_eos_penalty", "2", "--output_dir", "there"});
  const std::string text = write_plan(plan);
  EXPECT_TRUE(text.starts_with("# hone online-dpo, resolved.")) << text;
  EXPECT_EQ(parse_run_text(Method::kOnlineDpo, text, "plan.yaml"), plan);
  const Plan one = online_dpo({"--beta", "0.3"});
  EXPECT_EQ(parse_run_text(Method::kOnlineDpo, write_plan(one), "plan.yaml"), one);
}

TEST_F(OnlineDpoPlanTest, WhatDoesNotGoTogether) {
  const auto expect_error = [&](const Words& words, const std::string& text) {
    const std::string error = online_dpo_error(words);
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  expect_error({"--beta", "0"}, "beta above 0");
  expect_error({"--beta", "0.1", "x"}, "numbers for option beta");
  expect_error({"--max_new_tokens", "512"}, "max_new_tokens below max_length, 512");
  expect_error({"--max_length", "64"}, "write max_length: 576");
  expect_error({"--judge_model", "wise"}, "a judge beside judge_model");
  expect_error({"--judge", "http://localhost:8000/v1"}, "judge_model with a judge that is an address");
  expect_error({"--judge", "judge.py:better"}, "before the colon in judge");
  expect_error({"--judge", write("judge.py", "") + ":better", "--judge_model", "wise"},
               "a judge that is an address");
  expect_error({"--judge", write("judge.py", "") + ":better", "--missing_eos_penalty", "1"},
               "no missing_eos_penalty with a judge");
  expect_error({"--judge", write("judge.py", "") + ":better", "--reward_funcs", "accuracy_reward"},
               "either rewards or a judge");
  expect_error(
      {"--judge", "http://localhost:8000/v1", "--judge_model", "wise", "--judge_prompt", "{prompt} {first}"},
      "no {second}");
  expect_error({"--reward_weights", "1", "2"}, "one weight, for the one reward");
  expect_error({"--generation_kwargs", R"({"max_new_tokens": 3})"}, "write max_new_tokens: 3 instead");
  expect_error({"--missing_eos_penalty", "0"}, "missing_eos_penalty above 0");
  expect_error({"--num_generations", "4"}, "two completions");
  EXPECT_EQ(online_dpo({"--max_completion_length", "4"}).policy.max_completion_length, 4);
  EXPECT_NE(error_of([&] { parse_run(Method::kOnlineDpo, arguments()); }).find("or a judge"),
            std::string::npos);
}

}  // namespace online_dpo_plan_test
}  // namespace hone::config
