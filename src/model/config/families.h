// The table of model families. A row describes a layer by its modules, norms, activation, windows and rotations; the
// layer itself (decoder_layer.h, fused_layer.h), loading, GGUF, LoRA targets, quantization and the memory plan go over
// that description. docs/adding-a-family.md says what a new row needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf/gguf.h"
#include "base/gguf/gguf_write.h"
#include "base/json.h"
#include "model/config/model_config.h"

namespace hone::model {

// A tensor's or module's name in Hugging Face's files and in GGUF, without ".weight".
struct NamePair {
  std::string_view hf, gguf;
};

// Names outside the layers, of transformers' decoders; a row may name another set.
struct TensorNames {
  NamePair embedding{"model.embed_tokens", "token_embd"};
  NamePair final_norm{"model.norm", "output_norm"};
  NamePair head{"lm_head", "output"};
  NamePair layers{"model.layers.", "blk."};  // followed by the layer's number and a dot
  // of layers' own inputs (per_layer.h)
  NamePair per_layer_embedding{"model.embed_tokens_per_layer", "per_layer_token_embd"};
  NamePair per_layer_projection{"model.per_layer_model_projection", "per_layer_model_proj"};
  NamePair per_layer_norm{"model.per_layer_projection_norm", "per_layer_proj_norm"};
};

// Says where a bias comes from: a flag in config.json, or the architecture itself.
enum class BiasRule { kNever, kAlways, kAttentionBias, kMlpBias };

// A linear of every layer with the part that has it (layer_part.h). Rows of a layer are in the order of the
// files: those of attention's input (kQ, kK and kV, or kQkv), kO, those of the MLP's input (kGate and kUp, or kGateUp), kDown.
struct ModuleRow {
  ModuleKind kind;
  NamePair name;
  BiasRule bias = BiasRule::kNever;
  // GGUF has the lower half of the rows (the ups of kGateUp) under this name
  std::string_view gguf_second = {};
};

// A norm of every layer; kQ and kK of those with attention. kBeforeAttention is before whatever takes its place, too.
struct NormRow {
  NormPlace place;
  NamePair name;
};

// Another tensor of the layers of its kind, under its whole name.
struct TensorRow {
  TensorKind kind;
  NamePair name;
};

// A key of config.json that takes the place of another one when the file has it.
struct OtherKey {
  std::string_view found, means;
};

// The names of a mixture of experts. Files have a tensor an expert, or all experts of a layer in one; transformers 5 holds them
// stacked, as gate_up_proj [E, 2 I, H] and down_proj [E, H, I] of `module`experts.
struct ExpertNames {
  std::string_view module;            // "mlp."
  std::string_view router_parameter;  // below it, as transformers holds it: "gate.weight"
  std::string_view files;             // in files: "mlp.", "block_sparse_moe."
  std::string_view router;            // below it: "gate"
  std::string_view gate, up, down;    // below "experts.N.": "gate_proj", ...
  // Files that stack the experts have these names below `files`. Empty: they do not.
  std::string_view stacked_gate_up, stacked_down;
  // Names of target_modules that PEFT takes for the stacked parameters (adapters/expert_targets.h).
  bool renamed_targets = false;
};

// Which layers attend within sliding_window, when the file has one; layer_types says otherwise where it is there.
enum class WindowRule {
  kNone,        // none; a file that calls a layer sliding is refused
  kEveryLayer,  // whatever layer_types says
  // With use_sliding_window: those from max_window_layers on; those that do not rotate.
  kUpperLayers,
  kUnrotatedLayers,
  kEveryLayerSwitched,  // all, whatever layer_types says
  kPattern,             // all but each sliding_window_pattern-th; they have the local rotation
  kAlternating,         // every other layer, from the first on
};

struct FamilyTraits {
  Family family;
  std::string_view model_type;         // config.json's
  std::string_view gguf_architecture;  // general.architecture; several families may share one
  std::string_view architecture;       // config.json's architectures[0]
  std::vector<ModuleRow> modules;
  std::vector<NormRow> norms;
  std::vector<TensorRow> tensors = {};
  std::vector<OtherKey> other_keys = {};
  ExpertNames experts = {};         // of layers with experts, instead of the MLP's modules; empty: none
  bool projection_qk_norm = false;  // a Q/K norm is over the whole projection; otherwise over each head
  bool norm_adds_one = false;       // norms multiply by 1 + w; GGUF has the sum
  Activation activation = Activation::kSilu;
  std::string_view activation_key = "hidden_act";
  std::string_view activation_alias = {};  // another name that transformers' class reads as the same
  WindowRule windows = WindowRule::kNone;
  std::int64_t default_pattern = 6;       // kPattern's, when config.json has no sliding_window_pattern
  bool reads_pattern = true;              // whether transformers' class reads sliding_window_pattern
  std::int64_t default_window = 0;        // when config.json has no sliding_window; 0: none
  bool embedding_scaled = false;          // the embedding is multiplied by sqrt(hidden_size)
  std::int64_t default_head_dim = 0;      // when config.json has none; 0: hidden_size / num_attention_heads
  std::int64_t default_max_position = 0;  // transformers' class default
  double default_rope_theta = 10000;      // ...
  bool rotates_parts = false;             // reads partial_rotary_factor, which other families do not have
  double default_rotated_part = 1;        // ... when config.json has none
  bool default_tied_head = false;         // ...
  std::int64_t default_pad = -1;          // pad_token_id, ...; -1: none
  bool attention_gated = false;           // the linear of queries has a gate of attention's output too
  bool gguf_permutes_qk = false;          // llama.cpp stores Q and K rows interleaved for this family
  // A key, after the architecture and a dot, that only this family's files have of those that share the architecture.
  std::string_view gguf_marker = {};
  std::vector<std::string> lora_targets;  // PEFT's default target_modules; empty: PEFT wants them named
  // Fields of config.json that only this family has; null: none. UserError as parse_model_config. Those that rotations are
  // made of are read before them; those of single layers after their windows.
  void (*read_fields)(const base::Json& json, const std::string& where, ModelConfig& config) = nullptr;
  void (*read_heads)(const base::Json& json, const std::string& where, ModelConfig& config) = nullptr;
  void (*read_layers)(const base::Json& json, const std::string& where, ModelConfig& config) = nullptr;
  // The same fields to GGUF's metadata, and from them to config.json; null: none. UserError for what GGUF cannot say.
  void (*write_gguf_fields)(const ModelConfig& config, std::vector<base::GgufEntry>& entries) = nullptr;
  void (*read_gguf_fields)(const base::GgufFile& file, base::Json& json) = nullptr;
  TensorNames names = {};
};

const std::vector<FamilyTraits>& families();
const FamilyTraits& traits_of(Family family);
// The names in the class that config.json names: of a text model inside another one (wrappers.h) with its prefix.
const TensorNames& names_of(const ModelConfig& config);
const FamilyTraits* find_family(std::string_view model_type);  // nullptr when hone does not have it
std::string known_families();  // "llama, qwen2, qwen3, ...", those of wrappers.h last
// What hone would need for a model_type that it knows of and does not have: "mixtures of experts". Empty: not known.
std::string_view missing_for(std::string_view model_type);

// Says where else files may have a matrix: in the rows from `row` on, of `expert` in [experts, rows, in]
// (-1: of [rows, in]).
struct OtherPlace {
  std::string name;  // Hugging Face's, with ".weight" where it has it
  std::int64_t expert = -1, row = 0;
};

// GGUF has the value heads of a delta rule by their number within a key head, then by key head: head (k, i), the one at
// k per_key + i here, is at i key_heads + k there. They are rows from `first` on, or columns, of `width` each.
struct ValueHeads {
  std::int64_t key_heads = 0, per_key = 0;  // key_heads 0: none
  std::int64_t first = 0, width = 1;
  bool columns = false;
};

// A linear of a layer with its shape. `is_parameter`: transformers holds it in a parameter, not in a module of its own.
struct LayerLinear {
  ModuleKind kind;
  std::string hf, gguf;  // names in the layer, without ".weight"
  std::int64_t out = 0, in = 0;
  bool bias = false;
  std::int64_t permuted_heads = 0;  // > 0: GGUF holds its rows interleaved for that many heads
  std::int64_t expert = -1;         // its number; GGUF stacks the experts: [experts, out, in]
  std::vector<OtherPlace> others;   // names in the layer
  std::string gguf_second = {};     // GGUF has the lower half of the rows under this name; empty: it does not
  ValueHeads gguf_heads = {};
  bool is_parameter = false;
  const LayerPart* part = nullptr;  // that has it
};
// In the order of the files; of experts all gates, then all ups, then all downs.
std::vector<LayerLinear> layer_linears(const ModelConfig& config, std::int64_t layer);
struct LayerNorm {
  NormPlace place;
  NamePair name;
  std::int64_t width = 0;
};
std::vector<LayerNorm> layer_norms(const ModelConfig& config, std::int64_t layer);
struct LayerTensor {
  TensorKind kind;
  NamePair name;
  std::vector<std::int64_t> shape, gguf_shape;
  bool of_stream = false;  // its numbers are in the residual stream's dtype, not in the linears'
  bool is_decay = false;   // GGUF holds -exp of it
  ValueHeads gguf_heads = {};
};
std::vector<LayerTensor> layer_tensors(const ModelConfig& config, std::int64_t layer);

// One tensor of a model.
struct TensorSpec {
  std::string name;       // Hugging Face's: "model.layers.0.self_attn.q_proj.weight"
  std::string gguf_name;  // "blk.0.attn_q.weight"
  std::vector<std::int64_t> shape;
  std::int64_t permuted_heads = 0;            // > 0: GGUF holds its rows interleaved for that many heads
  bool gguf_adds_one = false;                 // GGUF holds 1 + w
  std::int64_t expert = -1;                   // GGUF stacks the experts: [experts, ...] under one name
  std::vector<OtherPlace> others;             // where files may have it otherwise; whole names
  std::vector<std::int64_t> gguf_shape = {};  // where GGUF's is another one, of as many numbers
  bool gguf_float = false;                    // GGUF has it in fp32, whatever the others are in
  bool is_buffer = false;                     // transformers does not train it: a buffer, not a parameter
  std::string gguf_second = {};               // GGUF has the lower half of its rows under this whole name
  bool gguf_is_decay = false;                 // GGUF holds -exp of it
  ValueHeads gguf_heads = {};
};

// All of them in model order: embedding, layers, final norm, what layers' own inputs are made of, and the head unless it is
// tied.
std::vector<TensorSpec> expected_tensors(const ModelConfig& config);

// Modules that can have an adapter, in model order: "model.layers.0.self_attn.q_proj" ... [out, in].
struct LinearSpec {
  std::string name;
  std::int64_t out = 0, in = 0;
};
std::vector<LinearSpec> adaptable_linears(const ModelConfig& config);

// Parameters that can have an adapter besides (PEFT's target_parameters): routers [E, H], and the stacked experts, in model
// order. `module` holds the parameter `name`, as transformers calls them.
struct ParameterSpec {
  std::string module, name;      // "model.layers.0.mlp.experts", "gate_up_proj"
  std::int64_t out = 0, in = 0;  // of one expert
  std::int64_t experts = 1;      // of a router 1
};
std::vector<ParameterSpec> adaptable_parameters(const ModelConfig& config);
std::vector<ParameterSpec> layer_parameters(const ModelConfig& config, std::int64_t layer);

}  // namespace hone::model
