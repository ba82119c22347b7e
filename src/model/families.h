// The table of model families: how each differs from Llama, and the names of its tensors.
//
// A family that fits the layer of decoder_layer.h takes one row in families.cpp and one parity case; a family
// with another layer also takes a file for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_config.h"

namespace hone::model {

// A tensor's or module's name in Hugging Face's files and in GGUF, without ".weight".
struct NamePair {
  std::string_view hf, gguf;
};

// Names of transformers' Llama-like decoders; a row may name another set.
struct TensorNames {
  NamePair embedding{"model.embed_tokens", "token_embd"};
  NamePair final_norm{"model.norm", "output_norm"};
  NamePair head{"lm_head", "output"};
  NamePair layers{"model.layers.", "blk."};  // followed by the layer's number and a dot
  NamePair input_norm{"input_layernorm", "attn_norm"};
  NamePair post_attention_norm{"post_attention_layernorm", "ffn_norm"};
  NamePair q_norm{"self_attn.q_norm", "attn_q_norm"}, k_norm{"self_attn.k_norm", "attn_k_norm"};
  NamePair q{"self_attn.q_proj", "attn_q"}, k{"self_attn.k_proj", "attn_k"}, v{"self_attn.v_proj", "attn_v"};
  NamePair o{"self_attn.o_proj", "attn_output"};
  NamePair gate{"mlp.gate_proj", "ffn_gate"}, up{"mlp.up_proj", "ffn_up"}, down{"mlp.down_proj", "ffn_down"};
};

// Where a bias comes from: a flag in config.json, or the architecture itself.
enum class BiasRule { kNever, kAlways, kAttentionBias, kMlpBias };

struct FamilyTraits {
  Family family;
  std::string_view model_type;    // config.json's, and GGUF's general.architecture
  std::string_view architecture;  // config.json's architectures[0]
  BiasRule qkv_bias, o_bias, mlp_bias;
  bool qk_norm;                           // RMSNorm over head_dim before RoPE
  std::int64_t default_head_dim;          // when config.json has none; 0: hidden_size / num_attention_heads
  std::int64_t default_max_position;      // transformers' class default
  bool gguf_permutes_qk;                  // llama.cpp stores Q and K rows interleaved for this family
  std::vector<std::string> lora_targets;  // PEFT's default target_modules
  TensorNames names = {};
};

const std::vector<FamilyTraits>& families();
const FamilyTraits& traits_of(Family family);
const FamilyTraits* find_family(std::string_view model_type);  // nullptr when hone does not have it
std::string known_families();                                  // "llama, qwen2, qwen3"

// One tensor of a model.
struct TensorSpec {
  std::string name;       // Hugging Face's: "model.layers.0.self_attn.q_proj.weight"
  std::string gguf_name;  // "blk.0.attn_q.weight"
  std::vector<std::int64_t> shape;
  std::int64_t permuted_heads = 0;  // > 0: GGUF holds its rows interleaved for that many heads
};

// All of them in model order: embedding, layers, final norm, and the head unless it is tied.
std::vector<TensorSpec> expected_tensors(const ModelConfig& config);

// Modules that can have an adapter, in model order: "model.layers.0.self_attn.q_proj" ... [out, in].
struct LinearSpec {
  std::string name;
  std::int64_t out = 0, in = 0;
};
std::vector<LinearSpec> adaptable_linears(const ModelConfig& config);

}  // namespace hone::model
