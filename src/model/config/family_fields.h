// Rows of family_rows.cpp name these functions, for what only one family's config.json and GGUF have.
#pragma once

#include <string>
#include <vector>

#include "base/gguf/gguf.h"
#include "base/gguf/gguf_write.h"
#include "base/json.h"
#include "model/config/model_config.h"

namespace hone::model {

using GgufEntries = std::vector<base::GgufEntry>;

// no_rope_layers, no_rope_layer_interval
void read_smollm3_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_smollm3_gguf_fields(const ModelConfig& config, GgufEntries& entries);

// rms_norm_eps, which transformers' Olmo2Config, Phi3Config and Ministral3Config set to 1e-5 where the file has none.
void read_olmo2_fields(const base::Json& json, const std::string& where, ModelConfig& config);

// refuses scalings that Phi3Config does not have
void read_phi3_fields(const base::Json& json, const std::string& where, ModelConfig& config);

// the rotation of layers with a window, beside that of olmo2
constexpr std::int64_t kOlmo3Pattern = 4;  // llama.cpp has no key for it
constexpr double kOlmo3Theta = 500000;     // of Olmo3Config
void read_olmo3_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_olmo3_gguf_fields(const ModelConfig& config, GgufEntries& entries);
void read_olmo3_gguf_fields(const base::GgufFile& file, base::Json& json);

// which layers rotate
constexpr std::int64_t kExaone4Pattern = 4;
void read_exaone4_layers(const base::Json& json, const std::string& where, ModelConfig& config);
void write_exaone4_gguf_fields(const ModelConfig& config, GgufEntries& entries);
void read_exaone4_gguf_fields(const base::GgufFile& file, base::Json& json);

// llama_4_scaling_beta of rope_parameters
void read_ministral3_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_ministral3_gguf_fields(const ModelConfig& config, GgufEntries& entries);
void read_ministral3_gguf_fields(const base::GgufFile& file, base::Json& json);

// embedding_multiplier, attention_multiplier, residual_multiplier, logits_scaling
void read_granite_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_granite_gguf_fields(const ModelConfig& config, GgufEntries& entries);
void read_granite_gguf_fields(const base::GgufFile& file, base::Json& json);

// the same, shared_intermediate_size and position_embedding_type; refuses mamba layers and experts
// the key of GGUF that says whether it rotates
constexpr const char* kGraniteRotates = "rope.scaling.finetuned";
void read_granite_hybrid_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_granite_hybrid_gguf_fields(const ModelConfig& config, GgufEntries& entries);
void read_granite_hybrid_gguf_fields(const base::GgufFile& file, base::Json& json);

// refuses attention in both directions
void read_gemma_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void read_gemma_gguf_fields(const base::GgufFile& file, base::Json& json);

// query_pre_attn_scalar, both soft caps; refuses attention in both directions
void read_gemma2_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_gemma2_gguf_fields(const ModelConfig& config, GgufEntries& entries);
void read_gemma2_gguf_fields(const base::GgufFile& file, base::Json& json);

// query_pre_attn_scalar, the local rotation; refuses soft caps and attention in both directions
void read_gemma3_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_gemma3_gguf_fields(const ModelConfig& config, GgufEntries& entries);
void read_gemma3_gguf_fields(const base::GgufFile& file, base::Json& json);

// norm_eps, layer_types or full_attn_idxs, conv_L_cache, conv_bias, and the MLP's width by block_auto_adjust_ff_dim
void read_lfm2_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_lfm2_gguf_fields(const ModelConfig& config, GgufEntries& entries);
void read_lfm2_gguf_fields(const base::GgufFile& file, base::Json& json);

// layer_types or full_attention_interval, linear_*, mrope_section; refuses what llama.cpp has no key for
void read_qwen3_5_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_qwen3_5_gguf_fields(const ModelConfig& config, GgufEntries& entries);
void read_qwen3_5_gguf_fields(const base::GgufFile& file, base::Json& json);

// Layers with a window get the local rotation.
void rotate_windows_locally(ModelConfig& config);

}  // namespace hone::model
