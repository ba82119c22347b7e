// Tiny random models in Hugging Face format, written by tests into a folder of their own.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/safetensors.h"
#include "base/json.h"
#include "data/records/record.h"
#include "model/config/families.h"
#include "model/config/model_config.h"

namespace hone::test_tools {

namespace fs = std::filesystem;

// A folder below the system's temporary one, removed with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (fs::temp_directory_path() / "hone-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The old form of config.json: 2 layers, hidden 32, 4 heads over 2 kv heads, 48 tokens.
inline base::Json tiny_config(const std::string& model_type) {
  const std::string name(model::find_family(model_type)->architecture);
  base::Json json = {{"architectures", {name}},
                     {"model_type", model_type},
                     {"vocab_size", 48},
                     {"hidden_size", 32},
                     {"intermediate_size", 40},
                     {"num_hidden_layers", 2},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"max_position_embeddings", 128},
                     {"rms_norm_eps", 1e-5},
                     {"rope_theta", 10000.0},
                     {"hidden_act", "silu"},
                     {"tie_word_embeddings", false},
                     {"bos_token_id", 1},
                     {"eos_token_id", 2},
                     {"torch_dtype", "float32"}};
  // These are the family's own, in use: windows shorter than a tile of keys, layers without a rotation,
  // factors.
  if (model_type == "qwen3") json["head_dim"] = 16;
  if (model_type == "mistral" || model_type == "phi3") json["sliding_window"] = 20;
  if (model_type == "phi3") json["partial_rotary_factor"] = 0.5;
  if (model_type == "smollm3") json["no_rope_layer_interval"] = 2;
  if (model_type == "ministral3") {
    json.update({{"head_dim", 16},
                 {"rope_scaling",
                  {{"rope_type", "yarn"},
                   {"factor", 4.0},
                   {"original_max_position_embeddings", 6},
                   {"mscale", 1.0},
                   {"mscale_all_dim", 1.0},
                   {"llama_4_scaling_beta", 0.5}}}});
  }
  if (model_type == "gemma") json.update({{"head_dim", 16}, {"hidden_act", "gelu_pytorch_tanh"}});
  if (model_type == "olmo3") {
    json.update({{"sliding_window", 20},
                 {"layer_types", {"sliding_attention", "full_attention"}},
                 {"rope_scaling",
                  {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}}}});
  }
  if (model_type == "exaone4")
    json.update({{"sliding_window", 20}, {"layer_types", {"sliding_attention", "full_attention"}}});
  if (model_type == "gemma2") {
    json.update({{"head_dim", 16},
                 {"sliding_window", 20},
                 {"query_pre_attn_scalar", 24},
                 {"attn_logit_softcapping", 2.0},
                 {"final_logit_softcapping", 4.0}});
  }
  if (model_type == "lfm2") {
    json.update({{"layer_types", {"conv", "full_attention"}},
                 {"conv_L_cache", 4},
                 {"conv_bias", true},
                 {"block_ffn_dim_multiplier", 1.4},
                 {"block_multiple_of", 5}});
  }
  if (model_type == "qwen3_5_text") {
    json.update({{"layer_types", {"linear_attention", "full_attention"}},
                 {"head_dim", 16},
                 {"partial_rotary_factor", 0.5},
                 {"linear_num_key_heads", 2},
                 {"linear_num_value_heads", 4},
                 {"linear_key_head_dim", 10},
                 {"linear_value_head_dim", 12},
                 {"linear_conv_kernel_dim", 3}});
  }
  if (model_type == "qwen3_moe") {
    json.update({{"head_dim", 16},
                 {"num_experts", 5},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 24},
                 {"norm_topk_prob", true}});
  }
  if (model_type == "mixtral" || model_type == "granitemoe")
    json.update({{"num_local_experts", 5}, {"num_experts_per_tok", 2}, {"intermediate_size", 24}});
  if (model_type == "olmoe") {  // weights of experts that do not add up to 1
    json.update({{"num_experts", 5},
                 {"num_experts_per_tok", 2},
                 {"intermediate_size", 24},
                 {"norm_topk_prob", false}});
  }
  if (model_type == "granitemoehybrid") {
    json.update({{"layer_types", {"attention", "attention"}},
                 {"num_local_experts", 0},
                 {"num_experts_per_tok", 0},
                 {"position_embedding_type", "nope"},
                 {"intermediate_size", 7},  // of experts, which it has not
                 {"shared_intermediate_size", 40}});
  }
  if (model_type == "granite" || model_type == "granitemoe" || model_type == "granitemoehybrid") {
    json.update({{"embedding_multiplier", 12.0},
                 {"attention_multiplier", 0.3},
                 {"residual_multiplier", 0.22},
                 {"logits_scaling", 3.0}});
  }
  if (model_type == "gemma3_text") {
    json.update({{"head_dim", 16},
                 {"sliding_window", 20},
                 {"sliding_window_pattern", 2},
                 {"query_pre_attn_scalar", 24},
                 {"rope_local_base_freq", 1000.0}});
  }
  if (model_type == "gemma4_text") {
    json.update({{"num_hidden_layers", 6},  // two of each type that read keys of another layer
                 {"num_kv_shared_layers", 4},
                 {"layer_types", base::Json::array()},
                 {"head_dim", 16},
                 {"global_head_dim", 32},
                 {"sliding_window", 20},
                 {"use_double_wide_mlp", true},
                 {"hidden_size_per_layer_input", 12},
                 {"vocab_size_per_layer_input", 60},
                 {"final_logit_softcapping", 4.0}});
    for (int i = 0; i < 6; ++i)
      json["layer_types"].push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
  }
  return json;
}

// Shapes as real models have them: head_dim 64 whatever the hidden size, and a head of several tiles.
inline base::Json wide_config(const std::string& model_type) {
  base::Json json = tiny_config(model_type);
  json.update({{"hidden_size", 96}, {"intermediate_size", 160}, {"head_dim", 64}, {"vocab_size", 2500}});
  if (json.contains("linear_key_head_dim"))
    json.update({{"linear_key_head_dim", 64}, {"linear_value_head_dim", 32}, {"linear_conv_kernel_dim", 4}});
  if (json.contains("global_head_dim"))
    json.update({{"global_head_dim", 128},
                 {"hidden_size_per_layer_input", 32},
                 {"vocab_size_per_layer_input", 2500}});
  return json;
}

// Shapes that no kernel likes: nothing a multiple of 8 but by chance, and a single head of keys and values.
inline base::Json odd_config(const std::string& model_type) {
  base::Json json = tiny_config(model_type);
  json.update({{"hidden_size", 22},
               {"intermediate_size", 37},
               {"head_dim", 20},
               {"num_attention_heads", 3},
               {"num_key_value_heads", 1},
               {"vocab_size", 51}});
  if (json.contains("linear_key_head_dim"))
    json.update({{"linear_key_head_dim", 7}, {"linear_value_head_dim", 9}});
  if (json.contains("global_head_dim"))
    json.update({{"global_head_dim", 12}, {"hidden_size_per_layer_input", 11}});
  return json;
}

// The model_type of every family, in the table's order: the first three, then those with parts of their own.
inline std::vector<const char*> every_family() {
  std::vector<const char*> out;
  for (const model::FamilyTraits& row : model::families()) out.push_back(row.model_type.data());
  return out;
}

// They have an operator or a place for one that the others have not: the daily tests go through what costs seconds a family
// with them alone, and --slow goes through the others.
inline const std::vector<const char*>& families_unlike_others() {
  static const std::vector<const char*> names = {"llama",        "qwen3",       "gemma3_text", "lfm2",
                                                 "qwen3_5_text", "gemma4_text", "qwen3_moe"};
  return names;
}
inline std::vector<const char*> families_like_others() {
  std::vector<const char*> out = every_family();
  std::erase_if(out, [](const std::string& family) {
    const auto& unlike = families_unlike_others();
    return std::find(unlike.begin(), unlike.end(), family) != unlike.end();
  });
  return out;
}

// Returns those of them that have experts.
inline std::vector<const char*> families_with_experts() {
  std::vector<const char*> out;
  for (const model::FamilyTraits& row : model::families()) {
    if (!row.experts.module.empty()) out.push_back(row.model_type.data());
  }
  return out;
}

// The linears of attention, for what a LoRA on experts cannot have (dropout, DoRA, another adapter below), of a family whose
// all-linear names experts; otherwise all-linear.
inline std::vector<std::string> without_experts(const std::string& model_type) {
  if (!model::find_family(model_type)->experts.renamed_targets) return {"all-linear"};
  return {"q_proj", "k_proj", "v_proj", "o_proj"};
}

// What keeps a tiny Gemma 4 from enlarging its rounding: its scores have no other scale than the norm of queries; and
// of twelve gates all may be closed, when a norm reads what rounding left (a real layer has 256).
inline double gemma4_factor(const std::string& name) {
  if (name.ends_with("q_norm.weight")) return 0.2;
  if (name.ends_with("per_layer_input_gate.weight")) return 0.25;
  for (const char* norm :
       {"post_attention_layernorm", "post_feedforward_layernorm", "post_per_layer_input_norm"})
    if (name.find(norm) != std::string::npos) return 0.5;
  return 1;
}

// Every tensor of the config, by name, from generator seed `seed`; norms multiply by about 1, the rest is near 0.
inline std::map<std::string, at::Tensor> random_tensors(const base::Json& config, std::uint64_t seed = 1) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  std::map<std::string, at::Tensor> tensors;
  const model::ModelConfig parsed = model::parse_model_config(config, "test");
  for (const auto& spec : model::expected_tensors(parsed)) {
    const at::Tensor noise = at::randn(spec.shape, generator, at::kFloat);
    const bool norm = spec.name.find("norm") != std::string::npos;
    const bool plain = spec.name.find("linear_attn.norm") != std::string::npos;  // never 1 + w
    tensors[spec.name] = norm ? noise * 0.1 + (parsed.norm_adds_one && !plain ? 0 : 1) : noise * 0.2;
    if (spec.name.ends_with("layer_scalar")) tensors[spec.name] = noise * 0.1 + 1;
    if (parsed.value_norm) tensors[spec.name] *= gemma4_factor(spec.name);
    if (spec.name.ends_with("A_log")) tensors[spec.name] = noise * 0.5 - 2;  // a decay over many tokens
  }
  return tensors;
}

inline base::DType disk_type(at::ScalarType dtype) {
  return dtype == at::kFloat      ? base::DType::kF32
         : dtype == at::kHalf     ? base::DType::kF16
         : dtype == at::kBFloat16 ? base::DType::kBF16
                                  : base::DType::kI32;
}

inline void write_tensors(const fs::path& path, const std::map<std::string, at::Tensor>& tensors) {
  std::vector<base::StoredTensor> stored;
  for (const auto& [name, t] : tensors) {
    stored.push_back({name,
                      disk_type(t.scalar_type()),
                      t.sizes().vec(),
                      {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}});
  }
  base::write_safetensors(path, stored, {{"format", "pt"}});
}

inline void write_json(const fs::path& path, const base::Json& json) {
  base::write_file_atomic(path, base::dump_json(json, 2));
}

// config.json and model.safetensors in `folder`, which is made.
inline void write_model(const fs::path& folder, const base::Json& config, std::uint64_t seed = 1,
                        at::ScalarType dtype = at::kFloat) {
  fs::create_directories(folder);
  write_json(folder / "config.json", config);
  auto tensors = random_tensors(config, seed);
  for (auto& [name, t] : tensors) t = t.to(dtype);
  write_tensors(folder / "model.safetensors", tensors);
}

// Segments of the given token ids, laid end to end; rows are numbered from `first_row`.
inline data::Batch make_batch(const std::vector<std::vector<std::int64_t>>& segments,
                              std::int64_t first_row = 0) {
  data::Batch batch;
  for (const auto& ids : segments) {
    const auto begin = static_cast<std::int64_t>(batch.ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      batch.ids.push_back(ids[i]);
      batch.positions.push_back(static_cast<std::int64_t>(i));
      batch.labels.push_back(i == 0 ? data::kIgnore : ids[i]);
    }
    batch.segments.push_back({begin, begin + static_cast<std::int64_t>(ids.size()), first_row++});
  }
  return batch;
}

inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

// The message of the UserError that `call` throws, or "" when it throws none.
template <typename Call>
std::string user_error(Call&& call) {
  try {
    call();
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace hone::test_tools

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)
