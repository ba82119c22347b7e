#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adapters/lora.h"
#include "base/error.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace targets_test {

using namespace hone::test_tools;

const model::ModelConfig& tiny() {
  static const model::ModelConfig config = model::parse_model_config(tiny_config("llama"), "test");
  return config;
}

LoraConfig names(std::vector<std::string> targets, std::vector<std::string> excluded = {}) {
  LoraConfig c;
  c.target_modules = std::move(targets);
  c.exclude_modules = std::move(excluded);
  return c;
}

LoraConfig regex(const std::string& target) {
  LoraConfig c = names({target});
  c.target_is_regex = true;
  return c;
}

std::vector<std::string> select(const LoraConfig& c) {
  return select_targets(c, tiny(), true);
}
std::string error_of(const LoraConfig& c) {
  return user_error([&] { select(c); });
}

TEST(SelectTargets, TakesNamesByTheirEndAfterADot) {
  EXPECT_EQ(select(names({"q_proj"})),
            (std::vector<std::string>{"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"}));
  EXPECT_EQ(select(names({"1.self_attn.q_proj", "model.layers.0.mlp.up_proj"})),
            (std::vector<std::string>{"model.layers.0.mlp.up_proj", "model.layers.1.self_attn.q_proj"}));
  EXPECT_NE(error_of(names({"proj"})), "");  // not after a dot
}

TEST(SelectTargets, UsesTheFamilysDefault) {
  EXPECT_EQ(select(LoraConfig{}), select(names({"q_proj", "v_proj"})));
}

TEST(SelectTargets, TakesAllLinearButTheHead) {
  EXPECT_EQ(select(regex("all-linear")).size(), 14u);
  EXPECT_EQ(select(regex("All-Linear")).size(), 14u);
  EXPECT_NE(error_of(names({"all-linear"})), "");  // in a list it is a name
}

TEST(SelectTargets, MatchesARegexAgainstTheWholeName) {
  EXPECT_EQ(select(regex(".*\\.layers\\.1\\.mlp\\.(up|down)_proj")),
            (std::vector<std::string>{"model.layers.1.mlp.up_proj", "model.layers.1.mlp.down_proj"}));
  const std::string message = error_of(regex("q_proj"));
  EXPECT_SAYS(message, "a single name is read as a regular expression");
  EXPECT_SAYS(message, ".*\\.q_proj");
  EXPECT_SAYS(error_of(regex(".*qq_proj")), "q_proj, k_proj, v_proj");
  EXPECT_EQ(select(regex("(?i).*Q_PROJ")), select(names({"q_proj"})));
  EXPECT_SAYS(error_of(regex("(?>q)_proj")), "as Python's re");
}

// Plain backtracking would take about 2^20 tries a name on each.
TEST(SelectTargets, MatchesNestedRepetitionInLinearTime) {
  EXPECT_SAYS(error_of(regex("(\\w+\\.?)+x")), "which matches none of 16");
  EXPECT_SAYS(error_of(regex("(([a-z_.0-9])+)+$x")), "which matches none of 16");
  EXPECT_EQ(select(regex("(\\w+\\.?)+_proj")).size(), 14u);
  EXPECT_EQ(select(regex(".*\\.(\\w)_proj(?<=q_proj)")), select(names({"q_proj"})));
}

// A file of somebody else's: std::regex died of the first, and the last would take 2^40 steps.
TEST(SelectTargets, RefusesHostileExpressions) {
  const auto from_file = [](const std::string& target) {
    return user_error([&] { select_targets(regex(target), tiny(), false); });
  };
  const std::string deep = from_file(std::string(20'000, '(') + "q_proj" + std::string(20'000, ')'));
  EXPECT_SAYS(deep, "adapter_config.json: target_modules");
  EXPECT_SAYS(deep, "groups at most 200 deep");
  EXPECT_SAYS(from_file(std::string(70'000, '.')), "at most 65536 characters");
  EXPECT_SAYS(from_file("((\\w|\\w|\\.)+)+\\1\\2!"), "at most 20000000 steps");
  LoraConfig c = regex("all-linear");
  c.exclude_modules = {std::string(20'000, '(')};
  c.exclude_is_regex = true;
  EXPECT_SAYS(user_error([&] { select_targets(c, tiny(), false); }), "adapter_config.json: exclude_modules");
}

TEST(SelectTargets, RefusesAnEntryThatMatchesNothingEvenWhenOthersMatch) {
  const std::string message = error_of(names({"q_proj", "v_prj"}));
  EXPECT_SAYS(message, "'v_prj', which matches no module");
  EXPECT_SAYS(message, "Did you mean 'v_proj'");
  EXPECT_EQ(select_targets(names({"q_proj", "v_prj"}), tiny(), false).size(), 2u);
}

TEST(SelectTargets, TakesTheHeadAndTheEmbeddingByName) {
  EXPECT_EQ(select(names({"lm_head"})), (std::vector<std::string>{"lm_head"}));
  EXPECT_EQ(select(names({"embed_tokens"})), (std::vector<std::string>{"model.embed_tokens"}));
  EXPECT_EQ(select(names({"model.embed_tokens", "lm_head", "q_proj"})),
            (std::vector<std::string>{"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj",
                                      "lm_head", "model.embed_tokens"}));
  EXPECT_EQ(select(regex(".*")).size(), 16u);
  LoraConfig reward = names({"q_proj", "lm_head"});
  reward.score_head = true;
  EXPECT_SAYS(error_of(reward), "'lm_head', which matches no module");
}

std::vector<std::string> in_layers(LoraConfig c, std::vector<std::int64_t> layers,
                                   std::vector<std::string> pattern = {}) {
  c.layers_to_transform = std::move(layers);
  c.layers_pattern = std::move(pattern);
  return select(c);
}

TEST(SelectTargets, TakesOnlySomeLayersOfNames) {
  EXPECT_EQ(in_layers(names({"q_proj", "lm_head"}), {1}),
            (std::vector<std::string>{"model.layers.1.self_attn.q_proj", "lm_head"}));
  // PEFT does not ask a module that the list names in full for its layer.
  EXPECT_EQ(in_layers(names({"model.layers.0.mlp.up_proj", "q_proj"}), {1}),
            (std::vector<std::string>{"model.layers.0.mlp.up_proj", "model.layers.1.self_attn.q_proj"}));
  EXPECT_EQ(in_layers(names({"q_proj", "v_proj"}), {0, 1}, {"layers"}).size(), 4u);
  EXPECT_EQ(in_layers(names({"q_proj", "v_proj"}), {0}, {"h", "model.layers"}).size(), 2u);
  EXPECT_EQ(in_layers(LoraConfig{}, {1}).size(), 2u);
  EXPECT_SAYS(user_error([] { in_layers(names({"q_proj", "v_proj"}), {0}, {"h"}); }),
              "layers_to_transform names no layer of theirs");
  EXPECT_SAYS(user_error([] { in_layers(names({"q_proj", "v_proj"}), {0}, {"("}); }),
              "option layers_pattern");
  EXPECT_SAYS(user_error([] { in_layers(names({"q_proj", "v_proj"}), {2}); }), "layers from 0 to 1");
  EXPECT_SAYS(user_error([] { in_layers(names({"embed_tokens"}), {1}); }), "none is left");
}

TEST(SelectTargets, Excludes) {
  EXPECT_EQ(select(names({"q_proj"}, {"layers.0.self_attn.q_proj"})),
            (std::vector<std::string>{"model.layers.1.self_attn.q_proj"}));
  EXPECT_EQ(select(names({"q_proj"}, {"lm_head"})).size(), 2u);
  LoraConfig c = regex("all-linear");
  c.exclude_modules = {".*mlp.*"};
  c.exclude_is_regex = true;
  EXPECT_EQ(select(c).size(), 8u);
  c.exclude_modules = {"mlp"};
  EXPECT_SAYS(error_of(c), "'mlp', which matches none");
}

TEST(SelectTargets, RefusesAnExclusionThatMatchesNothing) {
  const std::string message = error_of(names({"q_proj"}, {"dwn_proj"}));
  EXPECT_SAYS(message, "lora_exclude_modules");
  EXPECT_SAYS(message, "Did you mean 'down_proj'");
}

TEST(SelectTargets, RefusesWhenNothingIsLeft) {
  const std::string message = error_of(names({"q_proj"}, {"q_proj"}));
  EXPECT_SAYS(message, "none is left");
  EXPECT_SAYS(message, "excludes every target");
}

}  // namespace targets_test
}  // namespace hone::adapters
