// Rows of family_rows.cpp name these functions, for what config.json and a GGUF say of mixtures of experts.
#pragma once

#include <string>
#include <vector>

#include "base/gguf/gguf.h"
#include "base/gguf/gguf_write.h"
#include "base/json.h"
#include "model/config/model_config.h"

namespace hone::model {

// num_experts, num_experts_per_tok, moe_intermediate_size, norm_topk_prob, decoder_sparse_step, mlp_only_layers,
// router_aux_loss_coef. Without experts the layers are dense.
void read_qwen3_moe_fields(const base::Json& json, const std::string& where, ModelConfig& config);
// num_local_experts, num_experts_per_tok; refuses router_jitter_noise.
void read_mixtral_fields(const base::Json& json, const std::string& where, ModelConfig& config);
// ... and Granite's factors.
void read_granite_moe_fields(const base::Json& json, const std::string& where, ModelConfig& config);
// num_experts, num_experts_per_tok, norm_topk_prob; an expert has intermediate_size. Refuses clip_qkv.
void read_olmoe_fields(const base::Json& json, const std::string& where, ModelConfig& config);

// expert_count, expert_used_count, expert_feed_forward_length. UserError for what llama.cpp does otherwise: layers without
// experts, weights that are not renormalized.
void write_experts_gguf_fields(const ModelConfig& config, std::vector<base::GgufEntry>& entries);
void read_experts_gguf_fields(const base::GgufFile& file, base::Json& json);
void write_granite_moe_gguf_fields(const ModelConfig& config, std::vector<base::GgufEntry>& entries);
void read_granite_moe_gguf_fields(const base::GgufFile& file, base::Json& json);
// UserError for weights that are renormalized, and for the shapes that llama.cpp's olmoe has no tensors for.
void write_olmoe_gguf_fields(const ModelConfig& config, std::vector<base::GgufEntry>& entries);
void read_olmoe_gguf_fields(const base::GgufFile& file, base::Json& json);

}  // namespace hone::model
