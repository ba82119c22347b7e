// Tensors as a GGUF holds them: the order of their rows, and their bytes in one of ggml's types.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "base/gguf/ggml_types.h"
#include "base/gguf/gguf_write.h"
#include "model/config/families.h"

namespace hone::model {

// llama.cpp's order of the rows of q and k: (head, i, half) for Hugging Face's (head, half, i).
// w [heads * head_dim, ...]
at::Tensor interleave_rows(const at::Tensor& w, std::int64_t heads);

// The value heads of a delta rule in GGUF's order (ValueHeads), and back. key_heads 0: w itself.
at::Tensor order_value_heads(const at::Tensor& w, const ValueHeads& heads, bool to_gguf);

// UserError, with `where`, for values that `type` cannot hold: infinite, not a number, above 65504 in F16.
void require_finite(const at::Tensor& values, base::GgmlType type, const std::string& where);

// Quantizes `tensor` (fp32, contiguous, whole blocks a row) to `type` and appends it; all threads share the work.
void append_tensor(base::GgufWriter& writer, const at::Tensor& tensor, base::GgmlType type);

}  // namespace hone::model
