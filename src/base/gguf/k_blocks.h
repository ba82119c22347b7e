// ggml's blocks of 256 elements ("K-quants"): floats to a block and back.
//
//   Q4_K, Q5_K  d, m fp16; 8 sub-blocks of 32, each with a 6-bit scale s and a 6-bit minimum t;
//               element = d s q - m t, q of 4 or 5 bits
//   Q6_K        d fp16; 16 sub-blocks of 16, each with a signed 8-bit scale s; element = d s (q - 32),
//               q of 6 bits
//
// Layouts: ggml-common.h. Scales and minima are found as ggml's reference quantizer finds them without an
// importance matrix: a grid of candidate steps, the least-squares scale (and minimum) of each, and the one
// with the smallest weighted squared error; the bits are ggml's (tests/base/quantize_test.cpp). Values must
// be finite.
#pragma once

#include <cstddef>

namespace hone::base {

inline constexpr std::size_t kKBlock = 256;  // elements of one block

void quantize_q4_k(const float* values, std::byte* block);  // 144 bytes
void quantize_q5_k(const float* values, std::byte* block);  // 176 bytes
void quantize_q6_k(const float* values, std::byte* block);  // 210 bytes

void dequantize_q4_k(const std::byte* block, float* out);
void dequantize_q5_k(const std::byte* block, float* out);
void dequantize_q6_k(const std::byte* block, float* out);

}  // namespace hone::base
