// Writes a model as one GGUF file for llama.cpp and hone: weights, tokenizer and chat template.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/gguf/gguf.h"
#include "model/config/families.h"
#include "model/files/export.h"
#include "model/files/weight_source.h"

namespace hone::model {

// How matrices are stored; vectors (norms, biases) are always F32. The names are llama.cpp's.
enum class GgufWeights { kF32, kBF16, kF16, kQ8_0, kQ4_K_M };

struct GgufFacts {
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;  // of tensor data
  bool tokenizer = false;  // whether there was one to write
  // matrices whose rows are not whole blocks of their type: stored in the next wider type
  std::int64_t other_type = 0;
};

// The type of one tensor of a model with `layers` layers, as llama.cpp chooses without an importance matrix.
// Q4_K_M: Q4_K, but Q6_K for the head (the embedding, where it is the head) and, in the first and last eighth
// of the layers and every third between, for attn_v and ffn_down. Rows that are not a multiple of 256 use
// Q5_0 for Q4_K and Q8_0 for Q6_K; rows that are not a multiple of 32 use F16. (In models with 80 layers
// attn_v is Q5_K instead of Q4_K, as in llama.cpp.) Source: llama_tensor_get_type in llama-quant.cpp.
base::GgmlType gguf_type(const TensorSpec& spec, GgufWeights weights, std::int64_t layers, bool tied_head);

// Writes `out` atomically, one tensor at a time: peak memory is the largest tensor in fp32. Q and K rows are
// interleaved if the family's GGUF has them interleaved; `adjust` replaces tensors (a merged adapter).
// UserError when `out` exists, when the disk is too small, for a weight that is not finite in the type
// written (the largest F16 is 65504), and for a tokenizer that a GGUF cannot describe.
GgufFacts write_gguf(const WeightSource& source, const base::fs::path& out, GgufWeights weights,
                     const Adjust& adjust = {});

}  // namespace hone::model
