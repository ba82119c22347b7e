// Rotations in a GGUF, by llama.cpp's keys and tensors: rope.dimension_count, rope.freq_base, rope.scaling.*,
// rope_freqs.weight (Llama 3), rope_factors_short.weight and rope_factors_long.weight (longrope).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "base/gguf/gguf.h"
#include "base/gguf/gguf_write.h"
#include "base/json.h"
#include "model/config/families.h"
#include "model/config/model_config.h"

namespace hone::model {

// UserError for what llama.cpp has no key for.
void write_gguf_rotation(const ModelConfig& config, std::vector<base::GgufEntry>& entries);
// Returns what llama.cpp divides the frequencies by, by name, in fp32; empty where it needs no tensor.
std::vector<std::pair<std::string, at::Tensor>> gguf_rotation_tensors(const ModelConfig& config);
// Returns whether a tensor became part of config.json's rotation.
bool is_gguf_rotation(const std::string& tensor);

// rope_theta, rope_scaling and partial_rotary_factor of config.json; head_dim, max_position_embeddings are there. UserError
// for what hone does not have, or cannot recover from the file.
void read_gguf_rotation(const base::GgufFile& file, const FamilyTraits& family, base::Json& json);

}  // namespace hone::model
