// A row of family_rows.cpp names these functions, for what only Gemma 4's text models have in config.json and
// a GGUF.
#pragma once

#include <string>
#include <vector>

#include "base/gguf/gguf.h"
#include "base/gguf/gguf_write.h"
#include "base/json.h"
#include "model/config/model_config.h"

namespace hone::model {

// global_head_dim, or per_layer_config, which transformers 5 writes in its place
void read_gemma4_heads(const base::Json& json, const std::string& where, ModelConfig& config);
// final_logit_softcapping, the local rotation, hidden_size_per_layer_input, vocab_size_per_layer_input; refuses experts,
// values that are keys and attention in both directions
void read_gemma4_fields(const base::Json& json, const std::string& where, ModelConfig& config);
// num_kv_shared_layers, use_double_wide_mlp, and the heads of each layer; the last layer has no window
void read_gemma4_layers(const base::Json& json, const std::string& where, ModelConfig& config);

// The same to GGUF's metadata, and from it. UserError for what llama.cpp has no key for.
void write_gemma4_gguf_fields(const ModelConfig& config, std::vector<base::GgufEntry>& entries);
void read_gemma4_gguf_fields(const base::GgufFile& file, base::Json& json);

}  // namespace hone::model
