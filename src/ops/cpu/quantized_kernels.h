// Dequantizing on raw pointers: a range of a quantized matrix (portable, any machine), and a panel of the
// bf16 GEMM directly from the codes (avx512_bf16; elsewhere empty). bf16 as its 16 bits.
#pragma once

#include <cstdint>

namespace hone::ops::kernels {

using Bf16 = std::uint16_t;

// A matrix [out, in] as ops/quantized.h describes it. Number i of the flattened matrix belongs to scale
// i / block.
struct QuantizedView {
  const std::uint8_t* codes = nullptr;  // 4-bit: two a byte, the first in the upper half; 8-bit: int8
  const float* table = nullptr;         // values of the 16 codes; null: 8-bit
  const float* scales = nullptr;        // one per block; null: the scales are quantized
  // Then scale b is scale_table[scale_codes[b]] * scale_scales[b / scale_block] + scale_offset.
  const std::uint8_t* scale_codes = nullptr;
  const float* scale_table = nullptr;  // [256]
  const float* scale_scales = nullptr;
  float scale_offset = 0;
  std::int64_t scale_block = 256;
  std::int64_t block = 64;
  std::int64_t in = 0;
};

// Numbers begin .. begin + count of the flattened matrix: code * scale in fp32; the bf16 form rounds the
// product once, to nearest even.
void dequantize_run(const QuantizedView& matrix, std::int64_t begin, std::int64_t count, float* to);
void dequantize_run(const QuantizedView& matrix, std::int64_t begin, std::int64_t count, Bf16* to);

// Whether the two functions below support the matrix: `in` and `block` are multiples of 64 (8-bit: a block is
// a row).
bool has_quantized_panels(const QuantizedView& matrix);
// As pack_rows of gemm_kernels.h (in numbers of 16 bits): one panel out of rows row .. row + rows <= 32, numbers begin .. begin + k
// of each; begin and k are multiples of 64.
void pack_quantized_rows(const QuantizedView& matrix, std::int64_t row, std::int64_t rows, std::int64_t begin,
                         std::int64_t k, Bf16* panel);
// As pack_columns: one panel out of columns column .. column + 32 of rows row .. row + k; column is a
// multiple of 32.
void pack_quantized_columns(const QuantizedView& matrix, std::int64_t column, std::int64_t row,
                            std::int64_t k, Bf16* panel);

}  // namespace hone::ops::kernels
