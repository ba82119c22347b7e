#include "model/config/rotations.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/causal_lm.h"
#include "model/mixers/attention_heads.h"
#include "model/tiny_model.h"

namespace hone::model {
namespace rotations_test {

using base::Json;
using test_tools::tiny_config;

Json longrope() {
  Json json = tiny_config("phi3");
  json["original_max_position_embeddings"] = 8;
  json["rope_scaling"] = {{"type", "longrope"}, {"short_factor", {1.0, 1.5}}, {"long_factor", {2.0, 4.0}}};
  return json;
}

ModelConfig parse(const Json& json) {
  return parse_model_config(json, "test");
}

std::vector<std::int64_t> up_to(std::int64_t length) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < length; ++i) out.push_back(i);
  return out;
}

// transformers' longrope_frequency_update: the longest sequence of a pass decides for all of its tokens.
TEST(Rotations, TheLongestSequenceDecidesBetweenTheFactorsOfLongrope) {
  const ModelConfig config = parse(longrope());
  const Rotations rotations(config, at::kCPU);
  const double factor = config.rope_attention_factor;
  EXPECT_GT(factor, 1);
  const auto expected = [&](bool is_long, const std::vector<std::int64_t>& positions) {
    return ops::rope_table(main_frequencies(config, is_long), positions, at::kFloat, factor).cos;
  };
  std::vector<std::int64_t> both = up_to(3);
  EXPECT_TRUE(
      at::equal(rotations.tables(config, up_to(8), at::kFloat).tables[0].cos, expected(false, up_to(8))));
  EXPECT_TRUE(
      at::equal(rotations.tables(config, up_to(9), at::kFloat).tables[0].cos, expected(true, up_to(9))));
  for (const std::int64_t position : up_to(9)) both.push_back(position);
  EXPECT_TRUE(at::equal(rotations.tables(config, both, at::kFloat).tables[0].cos, expected(true, both)));
  EXPECT_FALSE(at::equal(expected(true, both), expected(false, both)));
  EXPECT_EQ(longest_generated(config), 8);
  EXPECT_EQ(longest_generated(parse(tiny_config("phi3"))), 128);
}

TEST(Rotations, DynamicIsDefaultUpToTheModelsLength) {
  Json json = tiny_config("llama");
  const ModelConfig plain = parse(json);
  json["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2.0}};
  const ModelConfig config = parse(json);
  const Rotations rotations(config, at::kCPU), other(plain, at::kCPU);
  const std::vector<std::int64_t> most = up_to(128);
  EXPECT_TRUE(at::equal(rotations.tables(config, most, at::kFloat).tables[0].cos,
                        other.tables(plain, most, at::kFloat).tables[0].cos));
  EXPECT_SAYS(test_tools::user_error([&] { rotations.tables(config, {128}, at::kFloat); }),
              "at most 128 tokens");
}

TEST(Rotations, QueriesHaveATableOfTheirOwnWhereTheyAreScaled) {
  const ModelConfig config = parse(tiny_config("ministral3"));
  const RopeTables tables = Rotations(config, at::kCPU).tables(config, {0, 5, 6, 40}, at::kFloat);
  const at::Tensor ratio = tables.queries.cos / tables.tables[0].cos;
  const at::Tensor expected = ops::query_position_scale({0, 5, 6, 40}, 0.5, 6).unsqueeze(1);
  EXPECT_TRUE(at::allclose(ratio, expected.expand_as(ratio), 1e-5));
  DecoderLayer layer;
  EXPECT_EQ(ropes_of(layer, tables).q, &tables.queries);
  EXPECT_EQ(ropes_of(layer, tables).k, tables.tables.data());
  layer.attention.rotation = kNoRotation;
  EXPECT_EQ(ropes_of(layer, tables).q, nullptr);
}

}  // namespace rotations_test
}  // namespace hone::model
