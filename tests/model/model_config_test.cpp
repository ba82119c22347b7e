#include "model/model_config.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "model/tiny_model.h"

namespace hone::model {
namespace model_config_test {

using namespace hone::test_tools;
using base::Json;

ModelConfig parse(const Json& json) {
  return parse_model_config(json, "config.json");
}

std::string error_of(const std::string& family, const std::function<void(Json&)>& spoil) {
  Json json = tiny_config(family);
  spoil(json);
  return user_error([&] { parse(json); });
}

TEST(ModelConfig, ReadsTheOldForm) {
  Json json = tiny_config("llama");
  json["rope_theta"] = 500000.0;
  json["rope_scaling"] = {{"factor", 32.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192},
                          {"rope_type", "llama3"}};
  json["eos_token_id"] = {7, 8};
  const ModelConfig c = parse(json);
  EXPECT_EQ(c.rope_theta, 500000.0);
  ASSERT_TRUE(c.rope_llama3);
  EXPECT_EQ(c.rope_llama3->factor, 32.0);
  EXPECT_EQ(c.head_dim, 8);
  EXPECT_EQ(c.eos_token_ids, (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(c.bos_token_id, 1);
}

TEST(ModelConfig, ReadsTheFormOfTransformers5) {
  Json json = tiny_config("llama");
  json.erase("rope_theta");
  json.erase("torch_dtype");
  json["dtype"] = "float32";
  json["rope_parameters"] = {{"rope_theta", 250000.0}, {"rope_type", "default"}};
  const ModelConfig c = parse(json);
  EXPECT_EQ(c.rope_theta, 250000.0);
  EXPECT_FALSE(c.rope_llama3);
  EXPECT_FALSE(c.rope_linear_factor);
}

TEST(ModelConfig, ReadsLinearScalingUnderItsOldName) {
  Json json = tiny_config("llama");
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(parse(json).rope_linear_factor, 4.0);
}

TEST(ModelConfig, GivesEachFamilyItsOwnTraits) {
  const ModelConfig llama = parse(tiny_config("llama")), qwen2 = parse(tiny_config("qwen2")),
                    qwen3 = parse(tiny_config("qwen3"));
  EXPECT_FALSE(llama.qkv_bias || llama.o_bias || llama.qk_norm);
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.o_bias || qwen2.qk_norm);
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_dim, 16);
  Json without = tiny_config("qwen3");
  without.erase("head_dim");
  EXPECT_EQ(parse(without).head_dim, 128);
}

TEST(ModelConfig, NamesTheFamiliesWhenItHasNot) {
  const std::string message = error_of("llama", [](Json& j) { j["model_type"] = "lama"; });
  EXPECT_SAYS(message, "llama, qwen2, qwen3");
  EXPECT_SAYS(message, "'lama'");
  EXPECT_SAYS(message, "Did you mean 'llama'");
}

TEST(ModelConfig, NamesAMissingOrWrongField) {
  EXPECT_SAYS(error_of("llama", [](Json& j) { j.erase("hidden_size"); }), "the field hidden_size");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["vocab_size"] = "48"; }), "vocab_size as an integer");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["num_hidden_layers"] = 0; }), "a positive integer");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["num_hidden_layers"] = 1e9; }),
              "num_hidden_layers as an integer");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["num_hidden_layers"] = 1000000000; }),
              "at most 10000 layers");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["num_key_value_heads"] = 3; }),
              "multiple of num_key_value_heads");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["head_dim"] = 7; }), "an even head_dim");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["hidden_size"] = 33; }), "or a head_dim");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["tie_word_embeddings"] = 1; }), "true or false");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["eos_token_id"] = "x"; }), "a token id or a list of them");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j = Json::array(); }), "a JSON object");
}

TEST(ModelConfig, RefusesWhatWouldChangeTheNumbers) {
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["hidden_act"] = "gelu"; }), "'gelu'");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["quantization_config"] = {{"bits", 4}}; }),
              "quantization_config");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["attention_dropout"] = 0.1; }), "attention_dropout 0");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["partial_rotary_factor"] = 0.5; }),
              "partial_rotary_factor 1");
  const auto yarn = [](Json& j) { j["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}}; };
  EXPECT_SAYS(error_of("qwen2", yarn), "'yarn'");
  EXPECT_SAYS(error_of("qwen2", yarn), "default, linear or llama3");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["rope_scaling"] = {{"rope_type", "llama3"}}; }),
              "the field factor");
}

TEST(ModelConfig, RefusesSlidingWindowsOnlyWhenInUse) {
  const auto windows = [](bool use, int from) {
    return [=](Json& j) {
      j["sliding_window"] = 64;
      j["use_sliding_window"] = use;
      j["max_window_layers"] = from;
    };
  };
  EXPECT_EQ(error_of("qwen2", windows(false, 0)), "");
  EXPECT_EQ(error_of("qwen2", windows(true, 2)), "");  // no layer is at or above 2
  EXPECT_SAYS(error_of("qwen2", windows(true, 1)), "sliding_window 64 in use");
  const auto types = [](const char* second) {
    return [=](Json& j) {
      j["sliding_window"] = 64;
      j["layer_types"] = {"full_attention", second};
    };
  };
  EXPECT_EQ(error_of("qwen3", types("full_attention")), "");
  EXPECT_SAYS(error_of("qwen3", types("sliding_attention")), "sliding windows");
  EXPECT_SAYS(error_of("qwen3", types("linear_attention")), "'linear_attention'");
}

}  // namespace model_config_test
}  // namespace hone::model
