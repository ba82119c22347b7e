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

enum class Family {
  kLlama,
  kQwen2,
  kQwen3,
  kMistral,
  kSmolLM3,
  kGranite,
  kOlmo2,
  kGemma3,
  kPhi3,
  kQwen3Moe,
  kMixtral,
  kGraniteMoe,
  kMinistral3,
  kGemma2,
  kLfm2,
  kGemma,
  kOlmo3
};

// How a layer mixes tokens, before its MLP.
enum class LayerKind {
  kAttention,
  kShortConv  // ops/short_conv.h
};

// What a linear of a layer computes. kQkv and kGateUp: several in one matrix, in this order of rows. kConvIn, kConvOut:
// around a short convolution.
enum class ModuleKind {
  kQ,
  kK,
  kV,
  kQkv,
  kO,
  kGate,
  kUp,
  kGateUp,
  kDown,
  kRouter,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kConvIn,
  kConvOut
};

// Tensors of a layer that are neither linears nor norms.
enum class TensorKind { kConvWeight, kConvBias };
constexpr std::size_t kTensorKinds = 2;

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

// What layers with a mixture of experts have instead of an MLP (model/moe.h).
struct ExpertsRule {
  std::int64_t count = 0;      // 0: no layer has experts
  std::int64_t per_token = 0;  // chosen for each token
  std::int64_t width = 0;      // intermediate size of one
  bool softmax_first = true;   // the softmax is over all experts; otherwise over those that are chosen
  bool renormalizes = false;   // ... and the weights of those that are chosen are divided by their sum
  bool float_weights = false;  // the weights stay fp32
  double balance = 0;          // router_aux_loss_coef: of the load-balancing loss
  std::vector<bool> dense;     // layers that have an MLP all the same; empty: none
};

// Llama 3's frequency scaling (transformers modeling_rope_utils._compute_llama3_parameters).
struct Llama3Rope {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  double original_max_position_embeddings = 8192;
};

// YaRN (_compute_yarn_parameters); its attention factor is ModelConfig::rope_attention_factor.
struct YarnRope {
  double factor = 1, original_max_position_embeddings = 0, beta_fast = 32, beta_slow = 1;
  bool truncate = true;
};

// LongRoPE (_compute_longrope_parameters): each frequency is divided by a factor of its own, one of two sets. As in
// transformers' forward, all sequences of a pass have the long factors if one of them is longer than the original
// length, and the short ones otherwise.
struct LongRope {
  std::vector<double> short_factor, long_factor;
  std::int64_t original_max_position_embeddings = 0;
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
  // The first so many columns of each head are rotated, the others are not; 0: all.
  std::int64_t rotary_dim = 0;
  // The main rotation: rope_theta and one of the scalings, or none. The local one, if a layer has it, is not scaled.
  double rope_theta = 10000;
  std::optional<double> rope_linear_factor;  // rope_type linear
  std::optional<Llama3Rope> rope_llama3;     // rope_type llama3
  std::optional<YarnRope> rope_yarn;         // rope_type yarn
  std::optional<LongRope> rope_long;         // rope_type longrope
  // rope_type dynamic: no scaling up to this length, and no sequence is longer; 0: any length
  std::int64_t rope_dynamic_from = 0;
  double rope_attention_factor = 1;        // of cosine and sine of the main rotation
  std::optional<double> local_rope_theta;  // gemma3
  // ministral3: a rotated query at position p is multiplied by 1 + beta ln(1 + floor(p / length)); 0: by nothing
  double query_scale_beta = 0;
  std::int64_t query_scale_length = 0;
  bool qkv_bias = false;  // qwen2 always; llama's attention_bias
  bool o_bias = false;    // llama's attention_bias
  bool mlp_bias = false;
  bool qk_norm = false;             // over each head
  bool projection_qk_norm = false;  // over all heads together: olmo2
  bool norm_adds_one = false;       // norms multiply by 1 + w: gemma
  bool norms_after = false;         // after attention and after the MLP: olmo2, gemma
  Activation activation = Activation::kSilu;
  double attention_scale = 0;     // of the scores; 0: head_dim^-0.5
  double attention_soft_cap = 0;  // > 0: scores become cap tanh(score / cap) after their scale
  double logits_soft_cap = 0;     // > 0: logits become cap tanh(logit / cap)
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
  std::vector<LayerKind> kinds;           // one a layer; empty: attention in all
  std::int64_t conv_taps = 0;             // of short convolutions
  bool conv_bias = false;                 // ... and of the linears around them

  ExpertsRule experts;

  bool has_experts(std::int64_t layer) const {
    return experts.count > 0 && (experts.dense.empty() || !experts.dense.at(static_cast<std::size_t>(layer)));
  }
  std::int64_t rotated() const { return rotary_dim > 0 ? rotary_dim : head_dim; }  // columns of a head
  LayerAttention attention_of(std::int64_t layer) const {
    return attention.empty() ? LayerAttention{} : attention.at(static_cast<std::size_t>(layer));
  }
  LayerKind kind_of(std::int64_t layer) const {
    return kinds.empty() ? LayerKind::kAttention : kinds.at(static_cast<std::size_t>(layer));
  }
  std::int64_t layers_of(LayerKind kind) const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < num_hidden_layers; ++i) count += kind_of(i) == kind ? 1 : 0;
    return count;
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
