// Recipes that leave their rewards and the form of their prompts to a script.
#include <algorithm>

#include "config/helpers.h"

namespace hone::config {
namespace script_rewards_test {

using Names = std::vector<std::string>;

class ScriptRewards : public ConfigTest {
 protected:
  Plan recipe(const std::string& more, Method method = Method::kGrpo) const {
    return parse_run(method, {"--config", yaml_file(more)});
  }
  std::string refusal(const std::string& more, Method method = Method::kGrpo) const {
    return error_of([&] { recipe(more, method); });
  }
};

TEST_F(ScriptRewards, AreThoseOfTheRecipesDialect) {
  for (const char* sign :
       {"dataset_configs:\n- train\n", "vllm_device: auto\n", "max_prompt_length: 256\n"}) {
    const Plan plan = recipe(sign);
    EXPECT_EQ(plan.policy.reward_funcs, (Names{"accuracy", "format"})) << sign;
    EXPECT_TRUE(std::any_of(plan.notes.begin(), plan.notes.end(), [](const std::string& note) {
      return note.starts_with("reward_funcs: [accuracy, format], since this recipe names none");
    })) << sign;
  }
  EXPECT_EQ(recipe("max_prompt_length: 256\nreward_weights: [1, 1, 2]\n").policy.reward_funcs,
            (Names{"accuracy", "format", "tag_count"}));
}

TEST_F(ScriptRewards, ARecipeThatNamesRewardsKeepsThem) {
  EXPECT_EQ(recipe("max_prompt_length: 256\nreward_funcs: [cosine]\n").policy.reward_funcs, Names{"cosine"});
}

// TRL's own script has no default, other tutorials have rewards of their own, and so has no other method any.
TEST_F(ScriptRewards, OthersAreRefused) {
  const std::string none = "at least one reward in reward_funcs";
  EXPECT_NE(refusal("beta: 0.1\n").find(none), std::string::npos);
  EXPECT_NE(refusal("max_prompt_length: 256\nreward_weights: [1, 1, 2, 3]\n").find(none), std::string::npos);
  EXPECT_NE(refusal("max_prompt_length: 256\n", Method::kRloo).find(none), std::string::npos);
  const std::string tutorial =
      write("tutorial.yaml", "model_name_or_path: " + path("model") +
                                 "\nuse_peft: true\ndataset_id_or_path: " + path("train.jsonl") +
                                 "\nmax_prompt_length: 256\n");
  EXPECT_NE(error_of([&] { parse_run(Method::kGrpo, {"--config", tutorial}); }).find(none),
            std::string::npos);
  EXPECT_NE(grpo_error({"--max_prompt_length", "256", "--reward_funcs", ""}).find("reward_funcs"),
            std::string::npos);
}

TEST_F(ScriptRewards, RowsWithoutPromptAreReadAsTheScriptReadsThem) {
  EXPECT_EQ(recipe("dataset_configs:\n- train\n").rows_without_prompt, "problem_r1");
  EXPECT_EQ(recipe("dataset_configs:\n- train\nsystem_prompt: Be brief.\n").rows_without_prompt, "problem");
  for (const char* sign : {"vllm_device: auto\n", "max_prompt_length: 256\n", "system_prompt: Be brief.\n"}) {
    EXPECT_EQ(recipe(std::string(sign) + "reward_funcs: accuracy\n").rows_without_prompt, "problem") << sign;
  }
  // What the user says counts.
  EXPECT_EQ(recipe("dataset_configs:\n- train\nrows_without_prompt: problem\n").rows_without_prompt,
            "problem");
  EXPECT_EQ(recipe("max_prompt_length: 256\nrows_without_prompt: refuse\n").rows_without_prompt, "refuse");
}

TEST_F(ScriptRewards, OtherRowsNeedAPrompt) {
  EXPECT_EQ(recipe("reward_funcs: accuracy\n").rows_without_prompt, "refuse");
  EXPECT_EQ(grpo({"--max_prompt_length", "256"}).rows_without_prompt, "refuse");
  EXPECT_EQ(recipe("dataset_configs:\n- train\ndataset_prompt_column: text\n").rows_without_prompt, "refuse");
  EXPECT_EQ(recipe("max_prompt_length: 256\n", Method::kDpo).rows_without_prompt, "refuse");
}

}  // namespace script_rewards_test
}  // namespace hone::config
