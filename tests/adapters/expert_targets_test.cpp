#include "adapters/expert_targets.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "adapters/lora.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace expert_targets_test {

using namespace hone::test_tools;
using Names = std::vector<std::string>;

LoraConfig config_of(const Names& targets, const Names& parameters = {}) {
  LoraConfig out;
  out.r = 3;
  out.alpha = 6;
  out.target_modules = targets;
  out.target_is_regex = targets.size() == 1;
  out.target_parameters = parameters;
  return out;
}

model::ModelConfig model_of(const char* type) {
  return model::parse_model_config(tiny_config(type), "test");
}

// As PEFT 0.21.2 saves them; recorded in tiny_qwen3_moe, tiny_mixtral and tiny_olmoe.
TEST(ExpertTargets, AllLinearNamesRoutersAndExperts) {
  for (const char* type : {"qwen3_moe", "mixtral", "olmoe"}) {
    const LoraConfig made = with_expert_targets(config_of({"all-linear"}), model_of(type), true);
    Names modules = made.target_modules;
    std::sort(modules.begin(), modules.end());
    EXPECT_EQ(modules, (Names{"k_proj", "o_proj", "q_proj", "v_proj"}));
    EXPECT_EQ(made.target_parameters, (Names{"down_proj", "gate.weight", "gate_up_proj"}));
    ASSERT_EQ(made.rank_pattern.size(), 1U);
    EXPECT_EQ(made.rank_pattern.front(), (std::pair<std::string, std::int64_t>{".*\\.gate_up_proj", 6}));
    EXPECT_EQ(made.alpha_pattern.front().second, 12);
    const Names targets = select_targets(config_of({"all-linear"}), model_of(type), true);
    EXPECT_EQ(targets.size(), 2U * (4 + 3));
    EXPECT_EQ(module_in_files("model.layers.1.mlp.experts.gate_up_proj", targets),
              "model.layers.1.mlp.experts.base_layer");
    EXPECT_EQ(module_in_files("model.layers.1.mlp.experts.down_proj", targets), "model.layers.1.mlp.experts");
    const LoraConfig twice = with_expert_targets(made, model_of(type), true);
    EXPECT_EQ(twice.target_parameters, made.target_parameters);
    EXPECT_EQ(twice.rank_pattern, made.rank_pattern);
  }
  // PEFT has no such names for Granite's
  EXPECT_EQ(select_targets(config_of({"all-linear"}), model_of("granitemoe"), true).size(), 8U);
}

TEST(ExpertTargets, NamesAndExpressionsOfExpertsBecomeParameters) {
  const model::ModelConfig model = model_of("qwen3_moe");
  const LoraConfig listed = with_expert_targets(config_of({"q_proj", "gate_proj", "up_proj"}), model, true);
  EXPECT_EQ(listed.target_parameters, Names{"gate_up_proj"});
  EXPECT_EQ(module_in_files("model.layers.0.mlp.experts.gate_up_proj", select_targets(listed, model, true)),
            "model.layers.0.mlp.experts");
  const LoraConfig pattern =
      with_expert_targets(config_of({R"(.*\.(v_proj|experts\.down_proj))"}), model, true);
  EXPECT_EQ(pattern.target_modules, Names{"v_proj"});
  EXPECT_EQ(pattern.target_parameters, Names{"down_proj"});
  EXPECT_SAYS(user_error([&] { with_expert_targets(config_of({"q_proj", "up_proj"}), model, true); }),
              "up_proj together with gate_proj");
}

TEST(ExpertTargets, RefusesWhatPeftRefuses) {
  const model::ModelConfig model = model_of("granitemoe");
  LoraConfig config = config_of({"q_proj", "v_proj"}, {"experts.down_proj", "router.weight"});
  EXPECT_EQ(select_targets(config, model, true).size(), 2U * (2 + 2));
  config.dropout = 0.05;
  EXPECT_SAYS(user_error([&] { select_targets(config, model, true); }), "lora_dropout");
  config.dropout = 0;
  config.dora = true;
  EXPECT_SAYS(user_error([&] { select_targets(config, model, true); }), "use_dora");
  const LoraConfig misspelled = config_of({"q_proj", "v_proj"}, {"experts.downproj"});
  EXPECT_SAYS(user_error([&] { select_targets(misspelled, model, true); }), "Did you mean");
  EXPECT_SAYS(user_error([&] { select_targets(misspelled, model_of("llama"), true); }), "no experts");
}

}  // namespace expert_targets_test
}  // namespace hone::adapters
