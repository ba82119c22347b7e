// 8-bit optimizer states (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"), with
// bitsandbytes 0.50.2's codes: blocks of 256 elements of a tensor, each with its largest magnitude.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "learn/optimizer.h"
#include "ops/dynamic_codes.h"

namespace hone::learn {

inline constexpr std::int64_t kStateBlock = 256;
inline constexpr std::int64_t kLeast8bit = 4096;  // min_8bit_size: smaller tensors keep fp32 states

// Whether a tensor's state is codes.
bool is_8bit(const FlatTensor& tensor);
std::int64_t state_blocks(std::int64_t size);

// codes uint8 [n], scales fp32 or fp64 [blocks] -> [shape of like], like's dtype. Computed in fp32. All on one device, as
// those of to_codes; every device gives the same bits, and neither is waited for.
at::Tensor from_codes(const ops::DynamicCodes& map, const at::Tensor& codes, const at::Tensor& scales,
                      const at::Tensor& like);
// The other way; value fp32, codes and scales are written. Nothing for an fp64 value: a reference has no use
// for it.
void to_codes(const ops::DynamicCodes& map, const at::Tensor& value, at::Tensor codes, at::Tensor scales);

}  // namespace hone::learn
