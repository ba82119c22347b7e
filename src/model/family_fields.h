// What only one family's config.json and GGUF have: the functions that rows of families.cpp name.
#pragma once

#include <string>
#include <vector>

#include "base/gguf.h"
#include "base/gguf_write.h"
#include "base/json.h"
#include "model/model_config.h"

namespace hone::model {

using GgufEntries = std::vector<base::GgufEntry>;

// no_rope_layers, no_rope_layer_interval
void read_smollm3_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_smollm3_gguf_fields(const ModelConfig& config, GgufEntries& entries);

// rms_norm_eps, which transformers' Olmo2Config and Phi3Config set to 1e-5 where the file has none.
void read_olmo2_fields(const base::Json& json, const std::string& where, ModelConfig& config);

// embedding_multiplier, attention_multiplier, residual_multiplier, logits_scaling
void read_granite_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_granite_gguf_fields(const ModelConfig& config, GgufEntries& entries);
void read_granite_gguf_fields(const base::GgufFile& file, base::Json& json);

// query_pre_attn_scalar, the local rotation; refuses soft caps and attention in both directions
void read_gemma3_fields(const base::Json& json, const std::string& where, ModelConfig& config);
void write_gemma3_gguf_fields(const ModelConfig& config, GgufEntries& entries);
void read_gemma3_gguf_fields(const base::GgufFile& file, base::Json& json);

// Layers with a window get the local rotation.
void rotate_windows_locally(ModelConfig& config);

}  // namespace hone::model
