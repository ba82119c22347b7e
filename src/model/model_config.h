// config.json of a supported family, in both formats: the old one (rope_theta, rope_scaling, torch_dtype) and
// transformers 5's (rope_parameters, dtype).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/gguf.h"
#include "base/json.h"

namespace hone::model {

enum class Family { kLlama, kQwen2, kQwen3 };

// Llama 3's frequency scaling (transformers modeling_rope_utils._compute_llama3_parameters).
struct Llama3Rope {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  double original_max_position_embeddings = 8192;
};

struct ModelConfig {
  Family family = Family::kLlama;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  std::optional<double> rope_linear_factor;  // rope_type linear
  std::optional<Llama3Rope> rope_llama3;     // rope_type llama3
  bool qkv_bias = false;                     // qwen2 always; llama's attention_bias
  bool o_bias = false;                       // llama's attention_bias
  bool mlp_bias = false;
  bool qk_norm = false;  // qwen3
  bool tie_word_embeddings = false;
  std::vector<std::int64_t> eos_token_ids;  // from config.json / generation_config.json
  std::optional<std::int64_t> bos_token_id, pad_token_id;
  base::Json json;  // the whole file, kept for writing it back
};

// UserError for an unknown model_type (naming the supported ones), a missing or wrong field, a rope type or
// activation that hone does not implement, or sliding windows in use.
ModelConfig parse_model_config(const base::Json& json, const std::string& where);
// The same from a GGUF's metadata (general.architecture and its keys); `json` is the config.json that
// transformers would read for it, in the old format. Llama 3's scaling is recovered from the tensor
// rope_freqs.weight. UserError as above.
ModelConfig model_config_from_gguf(const base::GgufFile& file);
// A token id, a list of them or null, as eos_token_id is written.
std::vector<std::int64_t> token_ids(const base::Json& json, const char* key, const std::string& where);

}  // namespace hone::model
