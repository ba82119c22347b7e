#include "model/files/gguf_write.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/gguf/gguf.h"
#include "model/config/rotations.h"
#include "model/tiny_model.h"

namespace hone::model {
namespace gguf_write_test {

using base::GgmlType;
using test_tools::TempFolder;

std::unique_ptr<WeightSource> tiny(const TempFolder& temp, const base::Json& config) {
  test_tools::write_model(temp.path() / "model", config);
  return open_weights(temp.path() / "model");
}

base::Json llama3_config() {
  base::Json config = test_tools::tiny_config("llama");
  config["rope_theta"] = 500000.0;  // so that some wavelengths are stretched by the whole factor
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  return config;
}

std::vector<base::Json> configs() {
  base::Json tied = test_tools::tiny_config("llama");
  tied["tie_word_embeddings"] = true;
  base::Json biased = test_tools::tiny_config("llama");
  biased["attention_bias"] = true;
  base::Json linear = test_tools::tiny_config("llama");
  linear["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  base::Json smollm3 = test_tools::tiny_config("smollm3");
  smollm3.erase("no_rope_layer_interval");
  smollm3["num_hidden_layers"] = 5;
  base::Json lfm2 = test_tools::tiny_config("lfm2");
  lfm2["conv_bias"] = false;
  base::Json no_window = test_tools::tiny_config("phi3");
  no_window["sliding_window"] = nullptr;
  base::Json yarn = test_tools::tiny_config("qwen3");
  yarn["rope_scaling"] = {
      {"rope_type", "yarn"},      {"factor", 4.0},    {"original_max_position_embeddings", 32},
      {"attention_factor", 0.75}, {"beta_fast", 8.0}, {"beta_slow", 0.5}};
  base::Json longrope = test_tools::tiny_config("phi3");
  longrope["head_dim"] = 24;
  longrope["partial_rotary_factor"] = 0.34;  // 8 columns
  longrope["original_max_position_embeddings"] = 32;
  longrope["rope_scaling"] = {
      {"type", "longrope"}, {"short_factor", {1.0, 1.1, 1.5, 2.25}}, {"long_factor", {1.25, 3.0, 7.0, 30.1}}};
  base::Json rotated = test_tools::tiny_config("granitemoehybrid");
  rotated["position_embedding_type"] = "rope";
  base::Json olmo3 = test_tools::tiny_config("olmo3");
  olmo3.update({{"num_hidden_layers", 5}, {"layer_types", nullptr}, {"rope_theta", 500000.0}});
  base::Json olmoe = test_tools::tiny_config("olmoe");
  olmoe["num_key_value_heads"] = 4;
  base::Json gemma4 = test_tools::tiny_config("gemma4_text");
  gemma4["vocab_size_per_layer_input"] = gemma4["vocab_size"];
  base::Json narrow4 = gemma4;
  narrow4.update({{"num_kv_shared_layers", 0},
                  {"hidden_size_per_layer_input", 0},
                  {"final_logit_softcapping", nullptr}});
  base::Json exaone4 = test_tools::tiny_config("exaone4");
  exaone4.update({{"sliding_window", nullptr}, {"layer_types", {"full_attention", "full_attention"}}});
  base::Json windowed4 = test_tools::tiny_config("exaone4");
  windowed4.update({{"num_hidden_layers", 64}, {"layer_types", nullptr}});
  return {olmo3,
          exaone4,
          windowed4,
          olmoe,
          gemma4,
          narrow4,
          yarn,
          longrope,
          test_tools::tiny_config("ministral3"),
          test_tools::tiny_config("qwen3_moe"),
          test_tools::tiny_config("mixtral"),
          test_tools::tiny_config("granitemoe"),
          test_tools::tiny_config("mistral"),
          smollm3,
          test_tools::tiny_config("granite"),
          test_tools::tiny_config("granitemoehybrid"),
          rotated,
          test_tools::tiny_config("olmo2"),
          test_tools::tiny_config("phi3"),
          no_window,
          lfm2,
          test_tools::tiny_config("llama"),
          tied,
          biased,
          linear,
          llama3_config(),
          test_tools::tiny_config("qwen2"),
          test_tools::tiny_config("qwen3")};
}

// In F32 nothing is lost, whatever the family: the config's numbers and every tensor.
TEST(GgufWrite, Fp32IsReadBackBitForBit) {
  for (const base::Json& config : configs()) {
    const TempFolder temp;
    const auto source = tiny(temp, config);
    const GgufFacts facts = write_gguf(*source, temp.path() / "m.gguf", GgufWeights::kF32);
    EXPECT_FALSE(facts.tokenizer);
    EXPECT_EQ(facts.other_type, 0);
    const auto back = open_weights(temp.path() / "m.gguf");
    const ModelConfig &a = source->config(), &b = back->config();
    EXPECT_EQ(a.head_dim, b.head_dim);
    EXPECT_EQ(a.num_key_value_heads, b.num_key_value_heads);
    EXPECT_EQ(a.max_position_embeddings, b.max_position_embeddings);
    EXPECT_EQ(a.rms_norm_eps, b.rms_norm_eps);
    EXPECT_EQ(a.rope_theta, b.rope_theta);
    EXPECT_EQ(a.rope_linear_factor, b.rope_linear_factor);
    EXPECT_EQ(a.rope_llama3.has_value(), b.rope_llama3.has_value());
    EXPECT_EQ(a.rotated(), b.rotated());
    EXPECT_NEAR(a.rope_attention_factor, b.rope_attention_factor, 1e-6);
    EXPECT_EQ(a.query_scale_beta, b.query_scale_beta);
    EXPECT_EQ(a.query_scale_length, b.query_scale_length);
    EXPECT_TRUE(at::equal(main_frequencies(a), main_frequencies(b)) || a.rope_llama3);
    ASSERT_EQ(a.rope_long.has_value(), b.rope_long.has_value());
    if (a.rope_long) {
      EXPECT_TRUE(at::equal(main_frequencies(a, true), main_frequencies(b, true)));
      EXPECT_EQ(a.rope_long->original_max_position_embeddings, b.rope_long->original_max_position_embeddings);
    }
    EXPECT_EQ(a.tie_word_embeddings, b.tie_word_embeddings);
    EXPECT_EQ(a.qkv_bias, b.qkv_bias);
    EXPECT_EQ(a.family, b.family);
    EXPECT_EQ(a.experts.per_token, b.experts.per_token);
    EXPECT_EQ(a.experts.width, b.experts.width);
    EXPECT_EQ(a.experts.renormalizes, b.experts.renormalizes);
    EXPECT_EQ(a.embedding_scale, b.embedding_scale);
    EXPECT_EQ(a.attention_scale, b.attention_scale);
    EXPECT_EQ(a.residual_scale, b.residual_scale);
    EXPECT_EQ(a.logits_scale, b.logits_scale);
    for (std::int64_t i = 0; i < a.num_hidden_layers; ++i) {
      EXPECT_EQ(a.attention_of(i).window, b.attention_of(i).window);
      EXPECT_EQ(a.attention_of(i).rotation, b.attention_of(i).rotation);
      EXPECT_EQ(&a.mixer(i), &b.mixer(i));
      EXPECT_EQ(a.attention_of(i).head_dim, b.attention_of(i).head_dim);
      EXPECT_EQ(a.attention_of(i).shares, b.attention_of(i).shares);
      EXPECT_EQ(a.mlp_of(i), b.mlp_of(i));
    }
    EXPECT_EQ(a.per_layer_width, b.per_layer_width);
    EXPECT_EQ(a.logits_soft_cap, b.logits_soft_cap);
    EXPECT_EQ(a.intermediate_size, b.intermediate_size);
    EXPECT_EQ(a.conv_taps, b.conv_taps);
    const auto specs = expected_tensors(a);
    EXPECT_EQ(back->names().size(), specs.size());
    for (const TensorSpec& spec : specs) {
      EXPECT_TRUE(at::equal(source->read(spec.name, at::kFloat), back->read(spec.name, at::kFloat)))
          << a.json["model_type"] << " " << spec.name;
    }
  }
}

// 1 + w is stored, so that w comes back within a rounding.
void expect_gemma(const base::Json& config) {
  const TempFolder temp;
  const auto source = tiny(temp, config);
  write_gguf(*source, temp.path() / "m.gguf", GgufWeights::kF32);
  const auto back = open_weights(temp.path() / "m.gguf");
  const ModelConfig &a = source->config(), &b = back->config();
  EXPECT_EQ(b.family, a.family);
  EXPECT_EQ(a.attention_soft_cap, b.attention_soft_cap);
  EXPECT_EQ(a.logits_soft_cap, b.logits_soft_cap);
  EXPECT_EQ(a.attention_scale, b.attention_scale);
  EXPECT_EQ(a.local_rope_theta, b.local_rope_theta);
  for (std::int64_t i = 0; i < 7; ++i) {
    EXPECT_EQ(a.attention_of(i).window, b.attention_of(i).window);
    EXPECT_EQ(a.attention_of(i).rotation, b.attention_of(i).rotation);
  }
  for (const TensorSpec& spec : expected_tensors(a)) {
    const at::Tensor ours = source->read(spec.name, at::kFloat), theirs = back->read(spec.name, at::kFloat);
    EXPECT_EQ(spec.gguf_adds_one, spec.name.find("norm") != std::string::npos) << spec.name;
    EXPECT_LT((ours - theirs).abs().max().item<double>(), spec.gguf_adds_one ? 3e-7 : 1e-30) << spec.name;
  }
  const base::GgufFile file = base::GgufFile::open(temp.path() / "m.gguf");
  EXPECT_EQ(file.find("blk.0.ffn_norm.weight")->shape.size(), 1U);
}

TEST(GgufWrite, TheNormsOfGemmasAreStoredWithTheirOne) {
  base::Json config = test_tools::tiny_config("gemma3_text");
  config.update({{"num_hidden_layers", 7},
                 {"sliding_window_pattern", 6},
                 {"rope_local_base_freq", 10000.0},
                 {"query_pre_attn_scalar", 16}});
  expect_gemma(config);
  config.update(
      {{"num_hidden_layers", 62}, {"query_pre_attn_scalar", 8}});  // hidden_size / heads of the 27B model
  expect_gemma(config);
  expect_gemma(test_tools::tiny_config("gemma"));
  config = test_tools::tiny_config("gemma2");
  config.update({{"num_hidden_layers", 7}, {"query_pre_attn_scalar", 16}});
  expect_gemma(config);
}

// What llama.cpp has no key for would be lost without a word.
TEST(GgufWrite, RefusesWhatAGgufCannotSay) {
  const auto refuses = [](const char* family, const base::Json& fields) {
    base::Json config = test_tools::tiny_config(family);
    config.update(fields);
    const TempFolder temp;
    const auto source = tiny(temp, config);
    return test_tools::user_error([&] { write_gguf(*source, temp.path() / "m.gguf", GgufWeights::kF32); });
  };
  EXPECT_SAYS(refuses("smollm3", base::Json::object()), "every fourth layer");
  EXPECT_SAYS(refuses("gemma3_text", {{"rope_local_base_freq", 10000.0}, {"query_pre_attn_scalar", 16}}),
              "every 6th");
  EXPECT_SAYS(refuses("gemma3_text", base::Json::object()), "local rotation");
  EXPECT_SAYS(refuses("gemma3_text", {{"rope_local_base_freq", 10000.0}}), "a query_pre_attn_scalar of 16");
  EXPECT_SAYS(refuses("olmo3", base::Json::object()), "one rope_theta in all layers");
  EXPECT_SAYS(refuses("olmo3", {{"rope_theta", 500000.0}}), "every 4th");
  EXPECT_SAYS(refuses("exaone4", base::Json::object()), "unless it has 64 layers");
  EXPECT_SAYS(refuses("exaone4", {{"layer_types", {"full_attention", "full_attention"}}}),
              "layer 0 without a rotation");
  EXPECT_SAYS(refuses("exaone4",
                      {{"num_hidden_layers", 64}, {"layer_types", nullptr}, {"sliding_window_pattern", 3}}),
              "every 4th");
  EXPECT_SAYS(refuses("gemma2", base::Json::object()), "a query_pre_attn_scalar of 16");
  EXPECT_SAYS(refuses("gemma2", {{"query_pre_attn_scalar", 16}, {"attn_logit_softcapping", nullptr}}),
              "soft caps of scores and logits");
  EXPECT_SAYS(refuses("llama", {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}}), "dynamic");
  EXPECT_SAYS(refuses("llama", {{"rope_scaling",
                                 {{"rope_type", "longrope"},
                                  {"short_factor", {1, 1, 1, 1}},
                                  {"long_factor", {2, 2, 2, 2}},
                                  {"original_max_position_embeddings", 32}}}}),
              "longrope only in a phi3");
  EXPECT_SAYS(
      refuses("llama", {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"truncate", false}}}}),
      "truncate true");
  EXPECT_SAYS(refuses("ministral3", {{"rope_scaling",
                                      {{"rope_type", "yarn"},
                                       {"factor", 4.0},
                                       {"original_max_position_embeddings", 6},
                                       {"llama_4_scaling_beta", 0.5}}}}),
              "an attention factor of 1");
  EXPECT_SAYS(refuses("lfm2", base::Json::object()), "conv_bias");
  EXPECT_SAYS(
      refuses("qwen3_5_text", {{"num_hidden_layers", 3},
                               {"linear_key_head_dim", 12},
                               {"layer_types", {"linear_attention", "full_attention", "full_attention"}}}),
      "after each 1 layers without it");
  EXPECT_SAYS(refuses("qwen3_5_text", base::Json::object()), "linear_value_head_dim 10");
  EXPECT_SAYS(
      refuses("qwen2", {{"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 0}}),
      "sliding windows in some");
}

TEST(GgufWrite, TheTypesAreTheOnesAskedFor) {
  const TempFolder temp;
  base::Json config = test_tools::tiny_config("llama");
  config.update(
      {{"hidden_size", 256}, {"intermediate_size", 512}, {"head_dim", 64}, {"num_hidden_layers", 3}});
  const auto source = tiny(temp, config);
  for (const auto& [weights, matrix, at_most] : {std::tuple(GgufWeights::kF16, GgmlType::kF16, 1e-3),
                                                 std::tuple(GgufWeights::kBF16, GgmlType::kBF16, 5e-3),
                                                 std::tuple(GgufWeights::kQ8_0, GgmlType::kQ8_0, 8e-3),
                                                 std::tuple(GgufWeights::kQ4_K_M, GgmlType::kQ4_K, 0.1)}) {
    const base::fs::path path = temp.path() / (std::to_string(static_cast<int>(weights)) + ".gguf");
    EXPECT_EQ(write_gguf(*source, path, weights).other_type, 0);
    const base::GgufFile file = base::GgufFile::open(path);
    EXPECT_EQ(file.find("blk.0.attn_q.weight")->type, matrix);
    EXPECT_EQ(file.find("blk.0.attn_norm.weight")->type, GgmlType::kF32);
    const auto back = open_weights(path);
    for (const TensorSpec& spec : expected_tensors(source->config())) {
      const at::Tensor a = source->read(spec.name, at::kFloat), b = back->read(spec.name, at::kFloat);
      EXPECT_LT((a - b).norm().item<double>(), at_most * a.norm().item<double>()) << spec.name;
    }
  }
}

// Llama-7B's shapes: llama-quantize gives 32 of its layers' tensors and the head Q6_K.
// As llama.cpp's converter writes them: [H, L] in fp32, and heads of 0 in layers that convolve.
TEST(GgufWrite, ConvolutionsAreLlamaCppsOwn) {
  const TempFolder temp;
  base::Json config = test_tools::tiny_config("lfm2");
  config["conv_bias"] = false;
  const auto source = tiny(temp, config);
  write_gguf(*source, temp.path() / "m.gguf", GgufWeights::kQ8_0);
  const base::GgufFile file = base::GgufFile::open(temp.path() / "m.gguf");
  const base::GgufTensor& taps = *file.find("blk.0.shortconv.conv.weight");
  EXPECT_EQ(taps.type, GgmlType::kF32);
  EXPECT_EQ(taps.shape, (std::vector<std::int64_t>{32, 4}));
  EXPECT_EQ(file.find("blk.0.shortconv.in_proj.weight")->type, GgmlType::kQ8_0);
  EXPECT_NE(file.find("token_embd_norm.weight"), nullptr);
  EXPECT_EQ(*file.ints("lfm2.attention.head_count_kv"), (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(file.require_int("lfm2.shortconv.l_cache"), 4);
}

// As llama.cpp's converter writes them; its reader knows which layers' keys the others read.
TEST(GgufWrite, Gemma4IsLlamaCppsOwn) {
  const TempFolder temp;
  base::Json config = test_tools::tiny_config("gemma4_text");
  config["vocab_size_per_layer_input"] = 48;
  const auto source = tiny(temp, config);
  write_gguf(*source, temp.path() / "m.gguf", GgufWeights::kF32);
  const base::GgufFile file = base::GgufFile::open(temp.path() / "m.gguf");
  EXPECT_EQ(file.require_int("gemma4.attention.key_length"), 32);
  EXPECT_EQ(file.require_int("gemma4.attention.key_length_swa"), 16);
  EXPECT_EQ(file.require_int("gemma4.attention.shared_kv_layers"), 4);
  EXPECT_EQ(*file.ints("gemma4.feed_forward_length"), (std::vector<std::int64_t>{40, 40, 80, 80, 80, 80}));
  EXPECT_EQ(*file.ints("gemma4.attention.sliding_window_pattern"),
            (std::vector<std::int64_t>{1, 0, 1, 0, 1, 0}));
  const base::GgufTensor& divisors = *file.find("rope_freqs.weight");
  std::vector<float> found(16);
  base::dequantize(divisors, found);
  EXPECT_EQ(found[3], 1);
  EXPECT_EQ(found[4], 1e30F);
  EXPECT_EQ(file.find("blk.2.attn_k.weight"), nullptr);
  EXPECT_EQ(file.find("blk.0.layer_output_scale.weight")->shape, (std::vector<std::int64_t>{1}));
  EXPECT_NE(file.find("per_layer_token_embd.weight"), nullptr);
  const auto refusal = [&](const base::Json& change) {
    base::Json other = config;
    other.update(change);
    const TempFolder folder;
    const auto opened = tiny(folder, other);
    return test_tools::user_error([&] { write_gguf(*opened, folder.path() / "m.gguf", GgufWeights::kF32); });
  };
  EXPECT_SAYS(refusal({{"vocab_size_per_layer_input", 60}}), "vocab_size_per_layer_input 48");
  base::Json types = {"full_attention", "sliding_attention", "sliding_attention",
                      "full_attention", "sliding_attention", "full_attention"};
  EXPECT_SAYS(refusal({{"layer_types", types}}), "keys of layer");
}

// As llama.cpp's converter writes them: the decay as it multiplies, and the value heads of a key head apart from each other.
TEST(GgufWrite, DeltaRulesAreLlamaCppsOwn) {
  const TempFolder temp;
  base::Json config = test_tools::tiny_config("qwen3_5_text");
  config["layer_types"] = {"linear_attention", "full_attention"};
  config["linear_key_head_dim"] = 12;
  const auto source = tiny(temp, config);
  write_gguf(*source, temp.path() / "m.gguf", GgufWeights::kF32);
  const base::GgufFile file = base::GgufFile::open(temp.path() / "m.gguf");
  const auto theirs = [&](const std::string& name) {
    const base::GgufTensor& tensor = *file.find(name);
    at::Tensor out = at::empty(tensor.shape, at::kFloat);
    base::dequantize(tensor, {out.data_ptr<float>(), static_cast<std::size_t>(out.numel())});
    return out;
  };
  const auto ours = [&](const char* name) {
    return source->read("model.layers.0.linear_attn." + std::string(name), at::kFloat);
  };
  // two key heads with two value heads each: 0, 1, 2, 3 become 0, 2, 1, 3
  const at::Tensor order = at::tensor({0, 2, 1, 3}, at::kLong);
  const at::Tensor each = ((order * 12).unsqueeze(1) + at::arange(12)).flatten();
  const at::Tensor values = each + 48;  // after 2 x 2 x 12 columns of queries and keys
  EXPECT_TRUE(at::equal(theirs("blk.0.ssm_a"), -ours("A_log").exp().index_select(0, order)));
  EXPECT_TRUE(at::equal(theirs("blk.0.ssm_dt.bias"), ours("dt_bias").index_select(0, order)));
  EXPECT_TRUE(at::equal(theirs("blk.0.ssm_alpha.weight"), ours("in_proj_a.weight").index_select(0, order)));
  EXPECT_TRUE(at::equal(theirs("blk.0.ssm_beta.weight"), ours("in_proj_b.weight").index_select(0, order)));
  EXPECT_TRUE(at::equal(theirs("blk.0.attn_gate.weight"), ours("in_proj_z.weight").index_select(0, each)));
  EXPECT_TRUE(at::equal(theirs("blk.0.ssm_out.weight"), ours("out_proj.weight").index_select(1, each)));
  const at::Tensor all = at::cat({at::arange(48), values});
  EXPECT_TRUE(at::equal(theirs("blk.0.attn_qkv.weight"), ours("in_proj_qkv.weight").index_select(0, all)));
  EXPECT_TRUE(
      at::equal(theirs("blk.0.ssm_conv1d.weight"), ours("conv1d.weight").squeeze(1).index_select(0, all)));
  EXPECT_TRUE(at::equal(theirs("blk.0.ssm_norm.weight"), ours("norm.weight")));
  EXPECT_EQ(file.require_int("qwen35.full_attention_interval"), 2);
  EXPECT_EQ(file.require_int("qwen35.ssm.conv_kernel"), 3);
  EXPECT_EQ(file.require_int("qwen35.ssm.state_size"), 12);
  EXPECT_EQ(file.require_int("qwen35.ssm.group_count"), 2);
  EXPECT_EQ(file.require_int("qwen35.ssm.time_step_rank"), 4);
  EXPECT_EQ(file.require_int("qwen35.ssm.inner_size"), 48);
  EXPECT_EQ(file.require_int("qwen35.rope.dimension_count"), 8);
  EXPECT_EQ(*file.ints("qwen35.rope.dimension_sections"), (std::vector<std::int64_t>{11, 11, 10, 0}));

  const auto back = open_weights(temp.path() / "m.gguf");
  const ModelConfig &a = source->config(), &b = back->config();
  EXPECT_EQ(a.kinds, b.kinds);
  EXPECT_EQ(a.rotated(), b.rotated());
  EXPECT_EQ(a.delta.inputs(), b.delta.inputs());
  EXPECT_EQ(a.delta.taps, b.delta.taps);
  for (const TensorSpec& spec : expected_tensors(a)) {
    const at::Tensor written = source->read(spec.name, at::kFloat), read = back->read(spec.name, at::kFloat);
    const double off = (written - read).abs().max().item<double>();
    EXPECT_LT(off, spec.gguf_adds_one || spec.gguf_is_decay ? 1e-6 : 1e-30) << spec.name;
  }
}

TEST(GgufWrite, FourBitMixture) {
  base::Json config = test_tools::tiny_config("llama");
  config.update({{"hidden_size", 4096},
                 {"intermediate_size", 11008},
                 {"num_hidden_layers", 32},
                 {"num_attention_heads", 32},
                 {"num_key_value_heads", 32},
                 {"vocab_size", 32000}});
  const ModelConfig seven = parse_model_config(config, "test");
  std::set<std::string> six;
  for (const TensorSpec& spec : expected_tensors(seven)) {
    const GgmlType type = gguf_type(spec, GgufWeights::kQ4_K_M, 32, false);
    if (type == GgmlType::kQ6_K) {
      six.insert(spec.gguf_name);
    } else {
      EXPECT_EQ(type, spec.shape.size() < 2 ? GgmlType::kF32 : GgmlType::kQ4_K) << spec.gguf_name;
    }
  }
  std::set<std::string> expected = {"output.weight"};
  for (const int layer : {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31}) {
    expected.insert("blk." + std::to_string(layer) + ".attn_v.weight");
    expected.insert("blk." + std::to_string(layer) + ".ffn_down.weight");
  }
  EXPECT_EQ(six, expected);
}

TEST(GgufWrite, RowsThatAreNoWholeBlocksTakeAWiderType) {
  const auto type = [](const char* name, std::int64_t columns, GgufWeights weights, bool tied = false) {
    return gguf_type({"", name, {64, columns}, 0}, weights, 30, tied);
  };
  using enum GgufWeights;
  EXPECT_EQ(type("blk.5.attn_q.weight", 576, kQ4_K_M), GgmlType::kQ5_0);     // SmolLM2-135M
  EXPECT_EQ(type("blk.0.attn_v.weight", 576, kQ4_K_M), GgmlType::kQ8_0);     // Q6_K was meant
  EXPECT_EQ(type("blk.5.ffn_down.weight", 1536, kQ4_K_M), GgmlType::kQ6_K);  // (5 - 3) % 3 == 2
  EXPECT_EQ(type("blk.6.ffn_down.weight", 1536, kQ4_K_M), GgmlType::kQ4_K);
  EXPECT_EQ(type("token_embd.weight", 576, kQ4_K_M, true), GgmlType::kQ8_0);
  EXPECT_EQ(type("token_embd.weight", 576, kQ4_K_M, false), GgmlType::kQ5_0);
  EXPECT_EQ(type("blk.5.attn_q.weight", 22, kQ4_K_M), GgmlType::kF16);
  EXPECT_EQ(type("blk.5.attn_q.weight", 22, kQ8_0), GgmlType::kF16);
  EXPECT_EQ(type("blk.5.attn_q.weight", 22, kF16), GgmlType::kF16);
  EXPECT_EQ(gguf_type({"", "blk.40.attn_v.weight", {64, 256}, 0}, kQ4_K_M, 80, false), GgmlType::kQ5_K);
  const TempFolder temp;
  const auto source = tiny(temp, test_tools::odd_config("qwen2"));
  EXPECT_GT(write_gguf(*source, temp.path() / "m.gguf", kQ4_K_M).other_type, 0);
  EXPECT_EQ(base::GgufFile::open(temp.path() / "m.gguf").find("blk.0.ffn_down.weight")->type, GgmlType::kF16);
}

TEST(GgufWrite, AdjustedTensorsTakeTheBasesPlace) {
  const TempFolder temp;
  const auto source = tiny(temp, test_tools::tiny_config("llama"));
  const std::string name = "model.layers.1.self_attn.q_proj.weight";
  const at::Tensor other = at::randn(source->shape(name));
  write_gguf(*source, temp.path() / "m.gguf", GgufWeights::kF32,
             [&](const std::string& asked) { return asked == name ? std::optional(other) : std::nullopt; });
  EXPECT_TRUE(at::equal(open_weights(temp.path() / "m.gguf")->read(name, at::kFloat), other));
}

TEST(GgufWrite, WhatCannotBeWrittenIsRefusedAndLeavesNothing) {
  const TempFolder temp;
  const auto source = tiny(temp, test_tools::tiny_config("llama"));
  const auto with = [&](double value, GgufWeights weights) {
    return test_tools::user_error([&] {
      write_gguf(*source, temp.path() / "m.gguf", weights, [&](const std::string& name) {
        return name == "lm_head.weight" ? std::optional(at::full(source->shape(name), value)) : std::nullopt;
      });
    });
  };
  EXPECT_SAYS(with(7e4, GgufWeights::kF16), "65504");
  EXPECT_SAYS(with(7e4, GgufWeights::kF16), "--outtype bf16");
  EXPECT_SAYS(with(std::numeric_limits<double>::quiet_NaN(), GgufWeights::kQ8_0), "finite weights");
  EXPECT_FALSE(base::fs::exists(temp.path() / "m.gguf"));
  EXPECT_EQ(with(7e4, GgufWeights::kBF16), "");
  EXPECT_SAYS(with(1, GgufWeights::kF16), "a new file");
}

}  // namespace gguf_write_test
}  // namespace hone::model
