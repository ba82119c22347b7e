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

enum class Family { kLlama, kQwen2, kQwen3, kMistral, kSmolLM3, kGranite, kOlmo2, kGemma3, kPhi3 };

// What a linear of a layer computes. kQkv and kGateUp: several in one matrix, in this order of rows.
enum class ModuleKind { kQ, kK, kV, kQkv, kO, kGate, kUp, kGateUp, kDown };

// Where a norm is: before attention or the MLP, after it, or on queries and keys before their rotation.
enum class NormPlace { kBeforeAttention, kBeforeMlp, kQ, kK, kAfterAttention, kAfterMlp };
constexpr std::size_t kNormPlaces = 6;

// Of the gate in act(gate) * up; kGeluTanh: transformers' gelu_pytorch_tanh.
enum class Activation { kSilu, kGeluTanh };

// Queries and keys of a layer: which keys a query sees, and how they are rotated.
struct LayerAttention {
  std::int64_t window = 0;    // > 0: the last so many keys, its own included; 0: all
  std::int64_t rotation = 0;  // kMainRotation, kLocalRotation or kNoRotation
};
constexpr std::int64_t kMainRotation = 0, kLocalRotation = 1, kNoRotation = -1;

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
  // The main rotation: rope_theta and one of the scalings, or none. The local one, if a layer has it, is not scaled.
  double rope_theta = 10000;
  std::optional<double> rope_linear_factor;  // rope_type linear
  std::optional<Llama3Rope> rope_llama3;     // rope_type llama3
  std::optional<double> local_rope_theta;    // gemma3
  bool qkv_bias = false;                     // qwen2 always; llama's attention_bias
  bool o_bias = false;                       // llama's attention_bias
  bool mlp_bias = false;
  bool qk_norm = false;             // over each head
  bool projection_qk_norm = false;  // over all heads together: olmo2
  bool norm_adds_one = false;       // norms multiply by 1 + w: gemma
  bool norms_after = false;         // after attention and after the MLP: olmo2, gemma
  Activation activation = Activation::kSilu;
  double attention_scale = 0;  // of the scores; 0: head_dim^-0.5
  double embedding_scale = 1;
  bool scales_in_embedding =
      false;  // the scale belongs to the lookup: rounded to its dtype, and NEFTune adds after it
  double residual_scale = 1;  // of what attention and the MLP add to the residual stream
  double logits_scale = 1;    // logits are divided by it
  bool tie_word_embeddings = false;
  std::vector<std::int64_t> eos_token_ids;  // from config.json / generation_config.json
  std::optional<std::int64_t> bos_token_id, pad_token_id;
  base::Json json;                        // the whole file, kept for writing it back
  std::vector<LayerAttention> attention;  // one a layer; empty: full attention with the main rotation in all

  LayerAttention attention_of(std::int64_t layer) const {
    return attention.empty() ? LayerAttention{} : attention.at(static_cast<std::size_t>(layer));
  }
};

// UserError for an unknown model_type (naming the supported ones, and what of it is missing where that is known), a
// missing or wrong field, a rope type or activation that hone does not implement, or windows that the family has not.
ModelConfig parse_model_config(const base::Json& json, const std::string& where);
// The same from a GGUF's metadata (general.architecture and its keys); `json` is the config.json that
// transformers would read for it, in the old format. Llama 3's scaling is recovered from the tensor
// rope_freqs.weight. UserError as above.
ModelConfig model_config_from_gguf(const base::GgufFile& file);
// A token id, a list of them or null, as eos_token_id is written.
std::vector<std::int64_t> token_ids(const base::Json& json, const char* key, const std::string& where);

}  // namespace hone::model
