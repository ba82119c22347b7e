// 8-bit optimizer states (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"), with
// bitsandbytes 0.50.2's codes: blocks of 256 elements of a tensor, each with its largest magnitude.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "learn/optimizer.h"
#include "ops/dynamic_codes.h"

namespace hone::learn {

inline constexpr std::int64_t kStateBlock = ops::kCodeBlock;
inline constexpr std::int64_t kLeast8bit = 4096;  // min_8bit_size: smaller tensors keep fp32 states

// Returns whether a tensor's state is codes.
bool is_8bit(const FlatTensor& tensor);
std::int64_t state_blocks(std::int64_t size);

}  // namespace hone::learn
