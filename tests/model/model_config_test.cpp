#include "model/config/model_config.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "model/config/families.h"
#include "model/config/mixer.h"
#include "model/config/rotations.h"
#include "model/tiny_model.h"

namespace hone::model {
namespace model_config_test {

using namespace hone::test_tools;
using base::Json;

ModelConfig parse(const Json& json) {
  return parse_model_config(json, "config.json");
}

std::int64_t layers_with(const ModelConfig& config, LayerKind kind) {
  ModelConfig one = config;
  one.kinds.assign(1, kind);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i)
    count += &config.mixer(i) == &one.mixer(0) ? 1 : 0;
  return count;
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
  EXPECT_SAYS(message, "llama, qwen2, qwen3, mistral");
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
  const auto both = [](Json& j) {
    j["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
    j["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
  };
  EXPECT_SAYS(error_of("qwen3", both), "rope_parameters or rope_scaling");
  const auto cubic = [](Json& j) { j["rope_scaling"] = {{"rope_type", "cubic"}, {"factor", 4.0}}; };
  EXPECT_SAYS(error_of("qwen2", cubic), "'cubic'");
  EXPECT_SAYS(error_of("qwen2", cubic),
              "default, linear, llama3, yarn, longrope or dynamic, or proportional");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["rope_scaling"] = {{"rope_type", "llama3"}}; }),
              "the field factor");
}

TEST(ModelConfig, RotatesAPartOfEachHeadWhereTheFamilyDoes) {
  Json json = tiny_config("phi3");
  EXPECT_EQ(parse(json).rotated(), 4);
  json["partial_rotary_factor"] = 1.0;
  EXPECT_EQ(parse(json).rotary_dim, 0);
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.75}};
  EXPECT_EQ(parse(json).rotated(), 6);  // theirs comes first
  EXPECT_SAYS(error_of("phi3", [](Json& j) { j["partial_rotary_factor"] = 0.7; }),
              "an even number of columns");
  EXPECT_SAYS(error_of("phi3", [](Json& j) { j["partial_rotary_factor"] = 1.5; }), "up to 1");
}

// _compute_yarn_parameters, standardize_rope_params
TEST(ModelConfig, ReadsYarnAsTransformersDoes) {
  Json json = tiny_config("qwen3");
  json["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}};
  ModelConfig config = parse(json);
  ASSERT_TRUE(config.rope_yarn);
  EXPECT_EQ(config.rope_yarn->original_max_position_embeddings, 32);
  EXPECT_EQ(config.rope_yarn->beta_fast, 32);
  EXPECT_EQ(config.rope_yarn->beta_slow, 1);
  EXPECT_TRUE(config.rope_yarn->truncate);
  EXPECT_DOUBLE_EQ(config.rope_attention_factor, 0.1 * std::log(4.0) + 1);
  json["original_max_position_embeddings"] = 16;  // beside the scaling it comes first
  EXPECT_EQ(parse(json).rope_yarn->original_max_position_embeddings, 16);
  json["rope_scaling"].update({{"mscale", 1.0}, {"mscale_all_dim", 0.5}});
  EXPECT_DOUBLE_EQ(parse(json).rope_attention_factor, (0.1 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1));
  json["rope_scaling"]["attention_factor"] = 0.5;
  EXPECT_EQ(parse(json).rope_attention_factor, 0.5);
  json["rope_scaling"]["factor"] = nullptr;
  EXPECT_EQ(parse(json).rope_yarn->factor, 8);  // 128 / 16
  json["rope_scaling"].update({{"beta_fast", 64}, {"beta_slow", -1}});
  EXPECT_SAYS(test_tools::user_error([&] { parse(json); }), "beta_slow");
}

TEST(ModelConfig, ReadsLongropeAsTransformersDoes) {
  Json json = tiny_config("phi3");
  json["rope_scaling"] = {{"type", "su"}, {"short_factor", {1.0, 1.5}}, {"long_factor", {2.0, 4}}};
  json["max_position_embeddings"] = 131072;
  const ModelConfig config = parse(json);
  ASSERT_TRUE(config.rope_long);
  EXPECT_EQ(config.rope_long->original_max_position_embeddings, 4096);  // Phi3Config's
  EXPECT_EQ(config.rope_long->long_factor, (std::vector<double>{2, 4}));
  EXPECT_DOUBLE_EQ(config.rope_attention_factor, std::sqrt(1 + std::log(32.0) / std::log(4096.0)));
  json["rope_scaling"]["long_factor"] = {2.0, 4.0, 8.0};
  EXPECT_SAYS(test_tools::user_error([&] { parse(json); }), "a list of 2 positive numbers");
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_SAYS(test_tools::user_error([&] { parse(json); }), "default or longrope");
}

TEST(ModelConfig, ReadsMinistral3AndGemma2) {
  Json json = tiny_config("ministral3");
  ModelConfig config = parse(json);
  EXPECT_EQ(config.query_scale_beta, 0.5);
  EXPECT_EQ(config.query_scale_length, 6);
  EXPECT_EQ(config.rope_attention_factor, 1);
  json.erase("rope_scaling");
  json.erase("rope_theta");
  json.erase("rms_norm_eps");
  config = parse(json);  // Ministral3Config's own
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_EQ(config.rope_yarn->factor, 16);
  EXPECT_EQ(config.query_scale_beta, 0.1);
  EXPECT_EQ(config.query_scale_length, 16384);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  json["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 2.0}};
  EXPECT_SAYS(test_tools::user_error([&] { parse(json); }), "llama_4_scaling_beta");

  json = tiny_config("gemma2");
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"})
    json.erase(key);
  config = parse(json);
  EXPECT_EQ(config.attention_soft_cap, 50);
  EXPECT_EQ(config.logits_soft_cap, 30);
  EXPECT_EQ(config.attention_scale, 1.0 / 16);
  EXPECT_EQ(config.attention_of(0).window, 20);
  EXPECT_EQ(config.attention_of(1).window, 0);
  EXPECT_EQ(config.attention_of(0).rotation, kMainRotation);
  json["attn_logit_softcapping"] = nullptr;
  EXPECT_EQ(parse(json).attention_soft_cap, 0);
  EXPECT_SAYS(error_of("gemma2", [](Json& j) { j["final_logit_softcapping"] = -1.0; }), "a positive number");
}

TEST(ModelConfig, ReadsGemmaAndOlmo3) {
  Json json = tiny_config("gemma");
  for (const char* key : {"head_dim", "hidden_act", "tie_word_embeddings"}) json.erase(key);
  ModelConfig config = parse(json);  // GemmaConfig's own
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_TRUE(config.tie_word_embeddings && config.norm_adds_one && config.scales_in_embedding);
  json["hidden_act"] = "gelu";  // of old files, read as the same
  EXPECT_EQ(parse(json).activation, Activation::kGeluTanh);
  EXPECT_SAYS(error_of("gemma", [](Json& j) { j["hidden_act"] = "silu"; }), "hidden_act gelu_pytorch_tanh");
  EXPECT_SAYS(error_of("gemma2", [](Json& j) { j["hidden_activation"] = "gelu"; }), "gelu_pytorch_tanh");
  EXPECT_SAYS(error_of("gemma", [](Json& j) { j["use_bidirectional_attention"] = true; }), "an encoder");

  json = tiny_config("olmo3");
  config = parse(json);
  EXPECT_EQ(config.attention_of(0).rotation, kLocalRotation);
  EXPECT_EQ(config.attention_of(1).rotation, kMainRotation);
  EXPECT_EQ(*config.local_rope_theta, 500000);  // Olmo3Config's, whatever rope_theta says
  EXPECT_TRUE(config.rope_yarn.has_value());
  for (const char* key : {"rope_theta", "rope_scaling", "layer_types", "sliding_window", "rms_norm_eps"})
    json.erase(key);
  json["num_hidden_layers"] = 4;
  config = parse(json);
  EXPECT_EQ(config.rope_theta, 500000);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(config.attention_of(i).window, i < 3 ? 4096 : 0);
  json["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}},
                             {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e3}}}};
  config = parse(json);
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_EQ(*config.local_rope_theta, 1e3);
}

TEST(ModelConfig, Exaone4RotatesLayersWithAWindow) {
  const auto rotations = [](const ModelConfig& config) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i)
      out.push_back(config.attention_of(i).rotation);
    return out;
  };
  Json json = tiny_config("exaone4");
  ModelConfig config = parse(json);
  EXPECT_TRUE(config.norms_after && config.qk_norm);
  EXPECT_FALSE(config.projection_qk_norm || config.qkv_bias || config.local_rope_theta);
  EXPECT_EQ(rotations(config), (std::vector<std::int64_t>{kMainRotation, kNoRotation}));
  EXPECT_EQ(config.attention_of(0).window, 20);
  EXPECT_EQ(config.attention_of(1).window, 0);
  json["sliding_window_pattern"] = "LG";  // beside layer_types nobody reads it
  EXPECT_EQ(parse(json).attention_of(0).window, 20);
  json["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_EQ(rotations(parse(json)), (std::vector<std::int64_t>{kNoRotation, kNoRotation}));
  json["sliding_window"] = nullptr;  // the form of 1.2B
  EXPECT_EQ(rotations(parse(json)), (std::vector<std::int64_t>{kMainRotation, kMainRotation}));

  for (const char* key : {"sliding_window", "sliding_window_pattern", "layer_types", "rms_norm_eps",
                          "max_position_embeddings", "rope_theta"})
    json.erase(key);
  json["num_hidden_layers"] = 8;
  config = parse(json);  // Exaone4Config's defaults
  for (std::int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(config.attention_of(i).window, i % 4 == 3 ? 0 : 4096);
    EXPECT_EQ(config.attention_of(i).rotation, i % 4 == 3 ? kNoRotation : kMainRotation);
  }
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.max_position_embeddings, 2048);
  EXPECT_EQ(config.rope_theta, 10000);
  // transformers stops at both
  EXPECT_SAYS(error_of("exaone4", [](Json& j) { j["sliding_window"] = nullptr; }), "sliding_window");
  EXPECT_SAYS(error_of("exaone4",
                       [](Json& j) {
                         j.erase("layer_types");
                         j["sliding_window_pattern"] = "LG";
                       }),
              "sliding_window_pattern");
}

TEST(ModelConfig, OlmoeHasExpertsAndNormsOfWholeProjections) {
  Json json = tiny_config("olmoe");
  for (const char* key : {"num_experts", "num_experts_per_tok", "norm_topk_prob", "rms_norm_eps",
                          "num_key_value_heads", "max_position_embeddings", "rope_theta"})
    json.erase(key);
  const ModelConfig config = parse(json);  // OlmoeConfig's defaults
  EXPECT_EQ(config.experts.count, 64);
  EXPECT_EQ(config.experts.per_token, 8);
  EXPECT_EQ(config.experts.width, 24);
  EXPECT_EQ(config.experts.balance, 0.01);
  EXPECT_TRUE(config.experts.softmax_first && config.projection_qk_norm);
  EXPECT_FALSE(config.experts.renormalizes || config.experts.float_weights || config.qk_norm);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.num_key_value_heads, 4);
  EXPECT_EQ(config.max_position_embeddings, 4096);
  EXPECT_EQ(config.rope_theta, 10000);
  json["norm_topk_prob"] = true;
  json["clip_qkv"] = nullptr;
  EXPECT_TRUE(parse(json).experts.renormalizes);
  EXPECT_SAYS(error_of("olmoe", [](Json& j) { j["clip_qkv"] = 8.0; }), "clip_qkv null");
  EXPECT_SAYS(error_of("olmoe", [](Json& j) { j["num_experts"] = 0; }), "num_experts");
}

TEST(ModelConfig, ALyingFileDoesNotCostMemory) {
  EXPECT_SAYS(
      error_of("qwen3_moe",
               [](Json& j) {
                 j.update(
                     {{"num_experts", 65536}, {"moe_intermediate_size", 1}, {"num_hidden_layers", 10000}});
                 j["mlp_only_layers"] = Json::array();
               }),
      "at most 1000000 experts in all layers");
  for (const double length : {0.5, 1e20}) {
    EXPECT_SAYS(error_of("ministral3",
                         [&](Json& j) { j["rope_scaling"]["original_max_position_embeddings"] = length; }),
                "a length from 1 to 2^31 - 1");
  }
}

std::vector<std::int64_t> windows_of(const ModelConfig& config) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) out.push_back(config.attention_of(i).window);
  return out;
}

std::vector<std::int64_t> rotations_of(const ModelConfig& config) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) out.push_back(config.attention_of(i).rotation);
  return out;
}

using Numbers = std::vector<std::int64_t>;

TEST(ModelConfig, SwitchesWindowsOnAsTransformersDoes) {
  const auto windows = [](const char* family, bool use, int from) {
    Json j = tiny_config(family);
    j["sliding_window"] = 64;
    j["use_sliding_window"] = use;
    j["max_window_layers"] = from;
    return windows_of(parse(j));
  };
  EXPECT_EQ(windows("qwen2", false, 0), (Numbers{0, 0}));
  EXPECT_EQ(windows("qwen2", true, 2), (Numbers{0, 0}));  // no layer is at or above 2
  EXPECT_EQ(windows("qwen3", true, 1), (Numbers{0, 64}));
  const auto types = [](const char* second) {
    return [=](Json& j) {
      j["sliding_window"] = 64;
      j["layer_types"] = {"full_attention", second};
    };
  };
  EXPECT_EQ(error_of("qwen3", types("full_attention")), "");
  EXPECT_SAYS(error_of("qwen3", types("sliding_attention")), "use_sliding_window does not switch");
  EXPECT_SAYS(error_of("llama", types("sliding_attention")), "this family has no sliding windows");
  EXPECT_SAYS(error_of("qwen3", types("linear_attention")), "'linear_attention'");
  EXPECT_SAYS(error_of("qwen3", [](Json& j) { j["layer_types"] = {"full_attention"}; }), "one a layer");
}

TEST(ModelConfig, MistralAndPhi3HaveOneWindow) {
  Json json = tiny_config("mistral");
  json.erase("sliding_window");
  EXPECT_EQ(windows_of(parse(json)), (Numbers{4096, 4096}));  // transformers' default
  json["sliding_window"] = nullptr;
  EXPECT_EQ(windows_of(parse(json)), (Numbers{0, 0}));
  json["sliding_window"] = 32;
  EXPECT_EQ(windows_of(parse(json)), (Numbers{32, 32}));
  EXPECT_SAYS(error_of("mistral", [](Json& j) { j["sliding_window"] = -1; }), "sliding_window");
  json = tiny_config("phi3");
  json.erase("sliding_window");
  EXPECT_EQ(windows_of(parse(json)), (Numbers{0, 0}));
  json["sliding_window"] = 16;
  EXPECT_EQ(windows_of(parse(json)), (Numbers{16, 16}));
  EXPECT_SAYS(error_of("phi3", [](Json& j) { j["resid_pdrop"] = 0.1; }), "resid_pdrop 0");
}

TEST(ModelConfig, SmolLM3LeavesLayersUnrotated) {
  Json json = tiny_config("smollm3");
  json["num_hidden_layers"] = 5;
  json.erase("no_rope_layer_interval");
  EXPECT_EQ(rotations_of(parse(json)), (Numbers{0, 0, 0, kNoRotation, 0}));
  json["no_rope_layer_interval"] = 2;
  EXPECT_EQ(rotations_of(parse(json)), (Numbers{0, kNoRotation, 0, kNoRotation, 0}));
  json["no_rope_layers"] = {1, 1, 0, 1, 1};
  json["use_sliding_window"] = true;
  json["sliding_window"] = 9;
  EXPECT_EQ(rotations_of(parse(json)), (Numbers{0, 0, kNoRotation, 0, 0}));
  EXPECT_EQ(windows_of(parse(json)), (Numbers{0, 0, 9, 0, 0}));
  json["no_rope_layers"] = {1, 2, 0, 1, 1};
  EXPECT_SAYS(user_error([&] { parse(json); }), "a list of 0 and 1");
  json["no_rope_layers"] = {1, 1};
  EXPECT_SAYS(user_error([&] { parse(json); }), "one a layer");
}

TEST(ModelConfig, GraniteHasFourFactors) {
  Json json = tiny_config("granite");
  json.update({{"embedding_multiplier", 12.0},
               {"attention_multiplier", 0.25},
               {"residual_multiplier", 0.22},
               {"logits_scaling", 8}});
  const ModelConfig config = parse(json);
  EXPECT_EQ(config.embedding_scale, 12);
  EXPECT_EQ(config.attention_scale, 0.25);
  EXPECT_EQ(config.residual_scale, 0.22);
  EXPECT_EQ(config.logits_scale, 8);
  EXPECT_SAYS(error_of("granite", [](Json& j) { j["logits_scaling"] = 0; }), "logits_scaling");
}

TEST(ModelConfig, Granite4IsDense) {
  Json json = tiny_config("granitemoehybrid");
  json["layer_types"] = nullptr;
  json["layers_block_type"] = {"attention", "full_attention"};
  const ModelConfig config = parse(json);
  EXPECT_EQ(config.intermediate_size, 40);
  EXPECT_EQ(config.residual_scale, 0.22);
  EXPECT_EQ(rotations_of(config), (Numbers{kNoRotation, kNoRotation}));
  json["position_embedding_type"] = "rope";
  EXPECT_TRUE(parse(json).attention.empty());
  json.erase("shared_intermediate_size");
  EXPECT_EQ(parse(json).intermediate_size, 1024);

  const auto refusal = [](const char* key, const Json& value) {
    return error_of("granitemoehybrid", [&](Json& j) { j[key] = value; });
  };
  EXPECT_SAYS(refusal("layer_types", {"mamba", "attention"}), "hone has no state space layers");
  EXPECT_SAYS(refusal("layer_types", {"attention", "mamba"}), "found:  \"mamba\"");
  EXPECT_SAYS(refusal("layer_types", nullptr), "all layers are mamba");
  EXPECT_SAYS(refusal("layer_types", 3), "a list of strings");
  EXPECT_SAYS(refusal("num_local_experts", 64), "no experts beside an MLP that every token goes through");
  EXPECT_SAYS(refusal("position_embedding_type", "alibi"), "rope or nope");
}

TEST(ModelConfig, Gemma3HasTwoRotations) {
  Json json = tiny_config("gemma3_text");
  json.erase("rope_theta");
  json.erase("rope_local_base_freq");
  json.update({{"sliding_window", 8}, {"sliding_window_pattern", 2}, {"query_pre_attn_scalar", 64}});
  ModelConfig config = parse(json);
  EXPECT_EQ(windows_of(config), (Numbers{8, 0}));
  EXPECT_EQ(rotations_of(config), (Numbers{kLocalRotation, kMainRotation}));
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_EQ(config.local_rope_theta, 1e4);
  EXPECT_EQ(config.attention_scale, 0.125);
  EXPECT_TRUE(config.norm_adds_one && config.norms_after && config.qk_norm && config.scales_in_embedding);
  json["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 5e5}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 2e4}}}};
  config = parse(json);
  EXPECT_EQ(config.rope_theta, 5e5);
  EXPECT_EQ(config.rope_linear_factor, 8);
  EXPECT_EQ(config.local_rope_theta, 2e4);
  EXPECT_SAYS(error_of("gemma3_text", [](Json& j) { j["final_logit_softcapping"] = 30.0; }), "soft caps");
  EXPECT_SAYS(error_of("gemma3_text", [](Json& j) { j["hidden_activation"] = "gelu"; }), "gelu_pytorch_tanh");
  EXPECT_SAYS(error_of("gemma3_text", [](Json& j) { j["sliding_window"] = nullptr; }), "sliding_window");
}

TEST(ModelConfig, Lfm2HasConvolutions) {
  Json json = tiny_config("lfm2");
  for (const char* key : {"layer_types", "conv_L_cache", "conv_bias", "block_ffn_dim_multiplier",
                          "block_multiple_of", "intermediate_size", "tie_word_embeddings", "rope_theta"})
    json.erase(key);
  // LFM2-1.2B's keys
  json.update({{"num_hidden_layers", 4},
               {"full_attn_idxs", {2}},
               {"block_ff_dim", 12288},
               {"norm_eps", 1e-4},
               {"tie_embedding", true}});
  ModelConfig config = parse(json);
  EXPECT_EQ(config.intermediate_size, 8192);
  EXPECT_EQ(config.conv_taps, 3);
  EXPECT_FALSE(config.conv_bias);
  EXPECT_EQ(config.rms_norm_eps, 1e-4);
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_TRUE(config.tie_word_embeddings && config.qk_norm);
  EXPECT_EQ(layers_with(config, LayerKind::kShortConv), 3);
  EXPECT_TRUE(config.mixer(2).attends());
  EXPECT_EQ(config.json["intermediate_size"], 12288);  // as transformers saves it
  json["layer_types"] = {"conv", "full_attention", "conv", "full_attention"};
  json["block_ffn_dim_multiplier"] = nullptr;
  json["block_ff_dim"] = 100;
  config = parse(json);
  EXPECT_EQ(layers_with(config, LayerKind::kShortConv), 2);
  EXPECT_EQ(config.intermediate_size, 66);
  json["block_auto_adjust_ff_dim"] = false;
  EXPECT_EQ(parse(json).intermediate_size, 100);
  json.erase("full_attn_idxs");
  json.erase("layer_types");
  EXPECT_EQ(layers_with(parse(json), LayerKind::kAttention), 4);
  EXPECT_SAYS(error_of("lfm2", [](Json& j) { j["layer_types"] = {"conv", "mamba"}; }),
              "full_attention and conv");
  EXPECT_SAYS(error_of("lfm2", [](Json& j) { j["conv_L_cache"] = 0; }), "conv_L_cache");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["layer_types"] = {"conv", "full_attention"}; }), "'conv'");
  const auto bad_layers = [](Json& j) {
    j.erase("layer_types");
    j["full_attn_idxs"] = {7};
  };
  EXPECT_SAYS(error_of("lfm2", bad_layers), "full_attn_idxs");
}

TEST(ModelConfig, Qwen35HasDeltaRules) {
  Json json = tiny_config("qwen3_5_text");
  for (const char* key :
       {"layer_types", "head_dim", "partial_rotary_factor", "linear_num_key_heads", "linear_num_value_heads",
        "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim"})
    json.erase(key);
  json["num_hidden_layers"] = 9;
  ModelConfig config = parse(json);  // Qwen3_5TextConfig's defaults
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.rotated(), 64);
  EXPECT_EQ(config.delta.key_heads, 16);
  EXPECT_EQ(config.delta.value_heads, 32);
  EXPECT_EQ(config.delta.taps, 4);
  EXPECT_EQ(config.delta.channels(), 2 * 16 * 128 + 32 * 128);
  EXPECT_EQ(config.delta.inputs(), 2 * 16 * 128 + 2 * 32 * 128 + 2 * 32);
  EXPECT_EQ(layers_with(config, LayerKind::kDeltaRule), 7);
  EXPECT_TRUE(config.mixer(3).attends());
  EXPECT_TRUE(config.mixer(7).attends());
  EXPECT_TRUE(config.qk_norm && config.norm_adds_one && config.attention_gate && !config.tie_word_embeddings);
  json["full_attention_interval"] = 2;
  EXPECT_EQ(layers_with(parse(json), LayerKind::kDeltaRule), 5);

  // Qwen3.5's keys: all positions of a text are equal, whatever sections they are for
  json = tiny_config("qwen3_5_text");
  json.erase("partial_rotary_factor");
  json["rope_parameters"] = {{"rope_type", "default"},
                             {"rope_theta", 1e7},
                             {"partial_rotary_factor", 0.25},
                             {"mrope_section", {11, 11, 10}},
                             {"mrope_interleaved", true}};
  config = parse(json);
  EXPECT_EQ(config.rope_theta, 1e7);
  EXPECT_EQ(config.rotated(), 4);
  EXPECT_EQ(config.kinds, (std::vector<LayerKind>{LayerKind::kDeltaRule, LayerKind::kAttention}));
  EXPECT_EQ(layer_linears(config, 0).size(), 8U);
  EXPECT_EQ(layer_linears(config, 1).front().out, 2 * config.num_attention_heads * config.head_dim);
  EXPECT_TRUE(layer_tensors(config, 1).empty());

  const auto refusal = [](const char* key, const Json& value) {
    return error_of("qwen3_5_text", [&](Json& j) { j[key] = value; });
  };
  EXPECT_SAYS(refusal("layer_types", {"linear_attention", "conv"}), "full_attention and linear_attention");
  EXPECT_SAYS(refusal("linear_num_value_heads", 3), "a multiple of linear_num_key_heads");
  EXPECT_SAYS(refusal("linear_conv_kernel_dim", 0), "linear_conv_kernel_dim");
  EXPECT_SAYS(refusal("linear_value_head_dim", 1 << 24), "columns of all heads");
  EXPECT_SAYS(error_of("llama", [](Json& j) { j["layer_types"] = {"linear_attention", "full_attention"}; }),
              "'linear_attention'");
}

// pad_token_id where config.json has none: the defaults of transformers' classes.
TEST(ModelConfig, PaddingIsTheClassesOwnWhereTheFileNamesNone) {
  const std::map<std::string, std::int64_t> defaults = {
      {"smollm3", 128004}, {"phi3", 32000},    {"ministral3", 11}, {"olmo2", 1},
      {"olmo3", 1},        {"olmoe", 1},       {"gemma", 0},       {"gemma2", 0},
      {"gemma3_text", 0},  {"gemma4_text", 0}, {"lfm2", 0}};
  for (const FamilyTraits& family : families()) {
    const std::string type(family.model_type);
    Json json = tiny_config(type);
    json.erase("pad_token_id");
    json["vocab_size"] = 200000;
    const auto found = defaults.find(type);
    const bool has = found != defaults.end();
    EXPECT_EQ(parse(json).pad_token_id, has ? std::optional(found->second) : std::nullopt) << type;
    json["pad_token_id"] = nullptr;
    EXPECT_EQ(parse(json).padding_row(200000), -1) << type;
    json["pad_token_id"] = 7;
    EXPECT_EQ(parse(json).padding_row(200000), 7) << type;
    json["pad_token_id"] = -1;
    EXPECT_EQ(parse(json).padding_row(200000), 199999) << type;
    if (!has || found->second == 0) continue;
    json["vocab_size"] = found->second;
    json.erase("pad_token_id");
    EXPECT_EQ(parse(json).padding_row(200000), -1) << type << ": beyond the vocabulary";
  }
}

TEST(ModelConfig, Gemma4SharesKeysAndHasHeadsByLayer) {
  Json json = tiny_config("gemma4_text");
  for (const char* key : {"layer_types", "head_dim", "global_head_dim", "sliding_window",
                          "use_double_wide_mlp", "hidden_size_per_layer_input", "vocab_size_per_layer_input",
                          "final_logit_softcapping", "num_kv_shared_layers", "pad_token_id"})
    json.erase(key);
  json["num_hidden_layers"] = 8;
  ModelConfig config = parse(json);  // Gemma4TextConfig's defaults
  EXPECT_EQ(config.attention_of(0).head_dim, 256);
  EXPECT_EQ(config.attention_of(0).window, 512);
  EXPECT_EQ(config.attention_of(0).rotation, kLocalRotation);
  EXPECT_EQ(config.attention_of(5).head_dim, 512);
  EXPECT_EQ(config.attention_of(5).window, 0);
  EXPECT_EQ(config.attention_of(7).window, 0);  // the last one, whatever the pattern says
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_EQ(config.rope_proportional, 64);
  EXPECT_EQ(config.rotated(), 512);
  EXPECT_EQ(config.local_rope_theta, 10000);
  EXPECT_EQ(config.attention_scale, 1);
  EXPECT_EQ(config.per_layer_width, 256);
  EXPECT_EQ(config.per_layer_vocab, 262144);
  EXPECT_EQ(config.pad_token_id, 0);
  EXPECT_EQ(main_frequencies(config).narrow(0, 64, 192).abs().max().item<float>(), 0);
  EXPECT_GT(main_frequencies(config)[63].item<float>(), 0);

  config = parse(tiny_config("gemma4_text"));
  const std::vector<std::int64_t> shares = {-1, -1, 0, 1, 0, 1};
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(config.attention_of(i).shares, shares[static_cast<std::size_t>(i)]);
    EXPECT_EQ(config.attention_of(i).is_shared, i < 2);
    EXPECT_EQ(config.mlp_of(i), i < 2 ? 40 : 80);
    EXPECT_EQ(layer_linears(config, i).size(), i < 2 ? 9U : 7U);
  }
  EXPECT_EQ(adaptable_linears(config).back().name, "model.per_layer_model_projection");

  // as transformers 5 saves it
  json = tiny_config("gemma4_text");
  json.erase("global_head_dim");
  json["per_layer_config"] = {
      {"1", {{"head_dim", 24}}}, {"3", {{"head_dim", 24}}}, {"5", {{"head_dim", 24}}}};
  EXPECT_EQ(parse(json).attention_of(3).head_dim, 24);
  EXPECT_EQ(parse(json).attention_of(2).head_dim, 16);
  json["per_layer_config"] = {{"5", {{"head_dim", 24}}}};
  EXPECT_SAYS(user_error([&] { parse(json); }), "one head_dim of all layers");

  const auto refusal = [](const char* key, const Json& value) {
    return error_of("gemma4_text", [&](Json& j) { j[key] = value; });
  };
  EXPECT_SAYS(refusal("enable_moe_block", true), "an MLP and experts side by side");
  EXPECT_SAYS(refusal("attention_k_eq_v", true), "keys that are the values");
  EXPECT_SAYS(refusal("use_bidirectional_attention", "all"), "encoder");
  EXPECT_SAYS(refusal("num_kv_shared_layers", 6), "num_kv_shared_layers");
  EXPECT_SAYS(refusal("num_kv_shared_layers", 5), "leaves a layer of each type");
  EXPECT_SAYS(refusal("per_layer_config", {{"1", {{"intermediate_size", 4}}}}), "intermediate_size");
  EXPECT_SAYS(refusal("per_layer_config", {{"full_attention", {{"head_dim", 4}}}}), "layers 0 to 5");
  EXPECT_SAYS(refusal("per_layer_config", {{"6", {{"head_dim", 4}}}}), "'6'");
  EXPECT_SAYS(refusal("hidden_size_per_layer_input", std::int64_t{1} << 61), "hidden_size_per_layer_input");
  EXPECT_SAYS(
      error_of("llama", [](Json& j) { j["rope_scaling"] = {{"rope_type", "proportional"}, {"factor", 2}}; }),
      "proportional of a Gemma 4");
}

TEST(ModelConfig, SaysWhatAFamilyNeedsThatItHasNot) {
  const auto says = [](const char* type) {
    return error_of("llama", [&](Json& j) { j["model_type"] = type; });
  };
  EXPECT_SAYS(says("glm4"), "it has no rotations of neighboring columns");
  EXPECT_SAYS(says("mamba"), "it has no state space");
  EXPECT_SAYS(says("gpt2"), "it has no LayerNorm");
  EXPECT_SAYS(says("qwen3_5_moe"), "experts that every token goes through");
  EXPECT_SAYS(says("mamba"), known_families());
}

}  // namespace model_config_test
}  // namespace hone::model
