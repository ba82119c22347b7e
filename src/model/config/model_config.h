// config.json of a supported family, in both formats: the old one (rope_theta, rope_scaling, torch_dtype) and
// transformers 5's (rope_parameters, dtype).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/gguf/gguf.h"
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
  kOlmo3,
  kQwen35,
  kGraniteHybrid,
  kGemma4,
  kOlmoe,
  kExaone4
};

class LayerPart;  // layer_part.h
class Mixer;      // mixer.h

// Which mixer a layer has. Only mixer.cpp names the kinds; everything else asks the mixer.
enum class LayerKind {
  kAttention,
  kShortConv,  // ops/short_conv.h
  kDeltaRule   // ops/delta_rule.h
};

// Says what a linear of a layer computes. kPerLayerGate and kPerLayerProjection: around a layer's own input
// (per_layer.h). kQkv and kGateUp: several in one matrix, in this order of rows. kConvIn, kConvOut: around a
// short convolution. kDeltaQkv, kDeltaZ, kDeltaB and kDeltaA: before a delta rule; kDeltaOut: after it.
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
  kConvOut,
  kDeltaQkv,
  kDeltaZ,
  kDeltaB,
  kDeltaA,
  kDeltaOut,
  kPerLayerGate,
  kPerLayerProjection
};

// Tensors of a layer that are neither linears nor norms.
enum class TensorKind {
  kConvWeight,
  kConvBias,
  kDeltaConv,
  kDeltaALog,
  kDeltaDtBias,
  kDeltaNorm,
  kLayerScale
};
constexpr std::size_t kTensorKinds = 7;

// Says where a norm is: before attention or the MLP, after it, or on queries and keys before their rotation.
// kV: on values, without a weight in files; kAfterPerLayer: after the linears of a layer's own input.
enum class NormPlace { kBeforeAttention, kBeforeMlp, kQ, kK, kAfterAttention, kAfterMlp, kV, kAfterPerLayer };
constexpr std::size_t kNormPlaces = 8;

// Names the activation of the gate in act(gate) * up; kGeluTanh: transformers' gelu_pytorch_tanh.
enum class Activation { kSilu, kGeluTanh };

// Queries and keys of a layer: which keys a query sees, and how they are rotated.
struct LayerAttention {
  std::int64_t window = 0;    // > 0: the last so many keys, its own included; 0: all
  std::int64_t rotation = 0;  // kMainRotation, kLocalRotation or kNoRotation
  std::int64_t head_dim =
      0;  // ModelConfig::attention_of() fills it in; in ModelConfig::attention 0: the model's
  std::int64_t kv_heads = 0;  // the same
  // The earlier layer whose keys and values it reads instead of having its own; -1: its own. And whether later layers
  // read its keys and values.
  std::int64_t shares = -1;
  bool is_shared = false;

  bool has_keys() const { return shares < 0; }
};
constexpr std::int64_t kMainRotation = 0, kLocalRotation = 1, kNoRotation = -1;

// Describes the experts that layers with a mixture have instead of an MLP (model/layers/moe.h).
struct ExpertsRule {
  std::int64_t count = 0;      // 0: no layer has experts
  std::int64_t per_token = 0;  // chosen for each token
  std::int64_t width = 0;      // intermediate size of one
  bool softmax_first = true;   // the softmax is over all experts; otherwise over those that are chosen
  bool renormalizes = false;   // ... and the weights of those that are chosen are divided by their sum
  bool float_weights = false;  // the weights stay fp32
  double balance = 0;          // router_aux_loss_coef: of the load-balancing loss
  bool wants_balance = false;  // output_router_logits: methods without an option of their own have that loss
  std::vector<bool> dense;     // layers that have an MLP all the same; empty: none
};

// Heads, columns and taps of a delta rule (ops/delta_rule.h).
struct DeltaRule {
  std::int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  std::int64_t taps = 0;  // 0: no layer has one

  std::int64_t values() const { return value_heads * value_dim; }
  std::int64_t channels() const { return 2 * key_heads * key_dim + values(); }     // q | k | v
  std::int64_t inputs() const { return channels() + values() + 2 * value_heads; }  // ... | z | b | a
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
  // rope_type proportional (_compute_proportional_rope_parameters): the first so many frequencies of whole heads, the others
  // are 0; empty: all. All of them are divided by rope_linear_factor where there is one.
  std::optional<std::int64_t> rope_proportional;
  double rope_attention_factor = 1;        // of cosine and sine of the main rotation
  std::optional<double> local_rope_theta;  // gemma3
  // ministral3: a rotated query at position p is multiplied by 1 + beta ln(1 + floor(p / length)); 0: by nothing
  double query_scale_beta = 0;
  std::int64_t query_scale_length = 0;
  bool qkv_bias = false;  // qwen2 always; llama's attention_bias
  bool o_bias = false;    // llama's attention_bias
  bool mlp_bias = false;
  bool qk_norm = false;             // over each head
  bool projection_qk_norm = false;  // over all heads together: olmo2, olmoe
  bool norm_adds_one = false;       // norms multiply by 1 + w: gemma
  bool norms_after = false;         // after attention and after the MLP: olmo2, exaone4, gemma
  bool value_norm = false;          // over each head of values, without a weight: gemma4
  Activation activation = Activation::kSilu;
  double attention_scale = 0;     // of the scores; 0: head_dim^-0.5
  double attention_soft_cap = 0;  // > 0: scores become cap tanh(score / cap) after their scale
  double logits_soft_cap = 0;     // > 0: logits become cap tanh(logit / cap)
  double embedding_scale = 1;
  bool scales_in_embedding =
      false;  // the scale belongs to the lookup: rounded to its dtype, and NEFTune adds after it
  double residual_scale = 1;         // of what attention and the MLP add to the residual stream
  double logits_scale = 1;           // logits are divided by it
  bool tie_word_embeddings = false;  // as the file says, or the family's default
  bool has_head = true;              // false: only the decoder is read, whose user brings a head of its own
  // Whether the head's matrix is the embedding's: tied, or none is read.
  bool head_is_embedding() const { return tie_word_embeddings || !has_head; }
  std::vector<std::int64_t> eos_token_ids;  // from config.json / generation_config.json
  std::optional<std::int64_t> bos_token_id, pad_token_id;
  base::Json json;                        // the whole file, kept for writing it back
  bool wrapped = false;                   // it is another model's, and this its text model's (wrappers.h)
  std::vector<LayerAttention> attention;  // one a layer; empty: full attention with the main rotation in all
  std::vector<LayerKind> kinds;           // one a layer; empty: attention in all
  // gemma4: head_dim of layers with the main rotation, 0: as in all; a layer that reads the keys of another one has an MLP
  // of twice the width; and inputs of each layer (per_layer.h) of so many columns, 0: none, looked up by token in a
  // vocabulary of their own.
  std::int64_t global_head_dim = 0;
  bool wide_mlp_where_shared = false;
  std::int64_t per_layer_width = 0, per_layer_vocab = 0;
  std::int64_t conv_taps = 0;  // of short convolutions
  bool conv_bias = false;      // ... and of the linears around them

  DeltaRule delta;  // of layers with a delta rule
  // The linear of queries has 2 N D rows, of each head a query and then its gate; attention's output is multiplied by the
  // gate's sigmoid: qwen3_5_text.
  bool attention_gate = false;

  ExpertsRule experts;

  bool has_experts(std::int64_t layer) const {
    return experts.count > 0 && (experts.dense.empty() || !experts.dense.at(static_cast<std::size_t>(layer)));
  }
  // The row whose lookup has no gradient, of an embedding of `rows`, as padding_idx of torch's nn.Embedding has it: an id
  // below 0 counts from the end. -1: none.
  std::int64_t padding_row(std::int64_t rows) const {
    if (!pad_token_id) return -1;
    return *pad_token_id < 0 ? rows + *pad_token_id : *pad_token_id;
  }
  // Columns of a head that the main rotation turns, and the local one.
  std::int64_t rotated() const {
    return rotary_dim > 0 ? rotary_dim : global_head_dim > 0 ? global_head_dim : head_dim;
  }
  std::int64_t locally_rotated() const { return rotary_dim > 0 ? rotary_dim : head_dim; }
  LayerAttention attention_of(std::int64_t layer) const {
    LayerAttention out = attention.empty() ? LayerAttention{} : attention.at(static_cast<std::size_t>(layer));
    if (out.head_dim == 0) out.head_dim = head_dim;
    if (out.kv_heads == 0) out.kv_heads = num_key_value_heads;
    return out;
  }
  std::int64_t mlp_of(std::int64_t layer) const {  // its width
    return wide_mlp_where_shared && !attention_of(layer).has_keys() ? 2 * intermediate_size
                                                                    : intermediate_size;
  }
  const Mixer& mixer(std::int64_t layer) const;  // of its layer
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
