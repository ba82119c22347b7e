#include "model/families.h"

#include <algorithm>

#include "base/error.h"

namespace hone::model {
namespace {

std::vector<FamilyTraits> make_table() {
  using enum BiasRule;
  const std::vector<std::string> q_and_v = {"q_proj", "v_proj"};
  return {
      {.family = Family::kLlama,
       .model_type = "llama",
       .architecture = "LlamaForCausalLM",
       .qkv_bias = kAttentionBias,
       .o_bias = kAttentionBias,
       .mlp_bias = kMlpBias,
       .qk_norm = false,
       .default_head_dim = 0,
       .default_max_position = 2048,
       .gguf_permutes_qk = true,
       .lora_targets = q_and_v},
      {.family = Family::kQwen2,
       .model_type = "qwen2",
       .architecture = "Qwen2ForCausalLM",
       .qkv_bias = kAlways,
       .o_bias = kNever,
       .mlp_bias = kNever,
       .qk_norm = false,
       .default_head_dim = 0,
       .default_max_position = 32768,
       .gguf_permutes_qk = false,
       .lora_targets = q_and_v},
      {.family = Family::kQwen3,
       .model_type = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .qkv_bias = kAttentionBias,
       .o_bias = kAttentionBias,
       .mlp_bias = kNever,
       .qk_norm = true,
       .default_head_dim = 128,
       .default_max_position = 32768,
       .gguf_permutes_qk = false,
       .lora_targets = q_and_v},
  };
}

std::string joined(std::string_view prefix, std::int64_t layer, std::string_view name) {
  return std::string(prefix) + std::to_string(layer) + "." + std::string(name);
}

// The linears of one layer with what decides their shapes, biases and order.
struct LayerLinear {
  const NamePair& name;
  std::int64_t out, in;
  bool bias;
  std::int64_t heads;  // rows that llama.cpp interleaves; 0: none
};

std::vector<LayerLinear> layer_linears(const ModelConfig& c, const FamilyTraits& f) {
  const std::int64_t q_rows = c.num_attention_heads * c.head_dim,
                     kv_rows = c.num_key_value_heads * c.head_dim;
  const std::int64_t q_heads = f.gguf_permutes_qk ? c.num_attention_heads : 0;
  const std::int64_t k_heads = f.gguf_permutes_qk ? c.num_key_value_heads : 0;
  return {{f.names.q, q_rows, c.hidden_size, c.qkv_bias, q_heads},
          {f.names.k, kv_rows, c.hidden_size, c.qkv_bias, k_heads},
          {f.names.v, kv_rows, c.hidden_size, c.qkv_bias, 0},
          {f.names.o, c.hidden_size, q_rows, c.o_bias, 0},
          {f.names.gate, c.intermediate_size, c.hidden_size, c.mlp_bias, 0},
          {f.names.up, c.intermediate_size, c.hidden_size, c.mlp_bias, 0},
          {f.names.down, c.hidden_size, c.intermediate_size, c.mlp_bias, 0}};
}

}  // namespace

const std::vector<FamilyTraits>& families() {
  static const std::vector<FamilyTraits> table = make_table();
  return table;
}

const FamilyTraits& traits_of(Family family) {
  for (const FamilyTraits& row : families()) {
    if (row.family == family) return row;
  }
  throw base::InternalError({"traits_of", "a row for every family", "none", "", ""});
}

const FamilyTraits* find_family(std::string_view model_type) {
  for (const FamilyTraits& row : families()) {
    if (row.model_type == model_type) return &row;
  }
  return nullptr;
}

std::string known_families() {
  std::string text;
  for (const FamilyTraits& row : families()) {
    if (!text.empty()) text += ", ";
    text += row.model_type;
  }
  return text;
}

std::vector<TensorSpec> expected_tensors(const ModelConfig& config) {
  const FamilyTraits& f = traits_of(config.family);
  std::vector<TensorSpec> specs;
  const auto add = [&specs](const std::string& hf, const std::string& gguf, const std::string& suffix,
                            std::vector<std::int64_t> shape, std::int64_t heads) {
    specs.push_back({hf + suffix, gguf + suffix, std::move(shape), heads});
  };
  const auto top = [&](const NamePair& n, std::vector<std::int64_t> shape) {
    add(std::string(n.hf), std::string(n.gguf), ".weight", std::move(shape), 0);
  };
  top(f.names.embedding, {config.vocab_size, config.hidden_size});
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const auto in_layer = [&](const NamePair& n, const std::string& suffix, std::vector<std::int64_t> shape,
                              std::int64_t heads = 0) {
      add(joined(f.names.layers.hf, i, n.hf), joined(f.names.layers.gguf, i, n.gguf), suffix,
          std::move(shape), heads);
    };
    in_layer(f.names.input_norm, ".weight", {config.hidden_size});
    in_layer(f.names.post_attention_norm, ".weight", {config.hidden_size});
    if (config.qk_norm) {
      in_layer(f.names.q_norm, ".weight", {config.head_dim});
      in_layer(f.names.k_norm, ".weight", {config.head_dim});
    }
    for (const LayerLinear& l : layer_linears(config, f)) {
      in_layer(l.name, ".weight", {l.out, l.in}, l.heads);
      if (l.bias) in_layer(l.name, ".bias", {l.out}, l.heads);
    }
  }
  top(f.names.final_norm, {config.hidden_size});
  if (!config.tie_word_embeddings) top(f.names.head, {config.vocab_size, config.hidden_size});
  return specs;
}

std::vector<LinearSpec> adaptable_linears(const ModelConfig& config) {
  const FamilyTraits& f = traits_of(config.family);
  std::vector<LinearSpec> specs;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    for (const LayerLinear& l : layer_linears(config, f)) {
      specs.push_back({joined(f.names.layers.hf, i, l.name.hf), l.out, l.in});
    }
  }
  return specs;
}

}  // namespace hone::model
