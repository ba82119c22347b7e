// Dequantising on plain pointers: a stretch of a quantised matrix (plain form, any machine), and a panel of
// the bf16 GEMM straight from the codes (avx512_bf16; elsewhere empty). bf16 as its 16 bits.
#pragma once

#include <cstdint>

namespace hone::ops::kernels {

using Bf16 = std::uint16_t;

// A matrix [out, in] as ops/quantised.h describes it. Number i of the flattened matrix belongs to scale
// i / block.
struct QuantisedView {
  const std::uint8_t* codes = nullptr;  // 4-bit: two a byte, the first in the upper half; 8-bit: int8
  const float* table = nullptr;         // what the 16 codes stand for; null: 8-bit
  const float* scales = nullptr;        // one a block; null: they are quantised themselves
  // Then scale b is scale_table[scale_codes[b]] * scale_scales[b / scale_block] + scale_offset.
  const std::uint8_t* scale_codes = nullptr;
  const float* scale_table = nullptr;  // [256]
  const float* scale_scales = nullptr;
  float scale_offset = 0;
  std::int64_t scale_block = 256;
  std::int64_t block = 64;
  std::int64_t in = 0;
};

// Numbers begin .. begin + count of the flattened matrix: code * scale in fp32; the bf16 form rounds that
// once, to nearest even.
void dequantise_run(const QuantisedView& matrix, std::int64_t begin, std::int64_t count, float* to);
void dequantise_run(const QuantisedView& matrix, std::int64_t begin, std::int64_t count, Bf16* to);

// Whether the two below can: `in` and `block` are multiples of 64 (8-bit: a block is a row).
bool has_quantised_panels(const QuantisedView& matrix);
// As pack_rows of gemm_kernels.h: one panel out of rows row .. row + rows <= 32, numbers begin .. begin + k
// of each; begin and k are multiples of 64.
void pack_quantised_rows(const QuantisedView& matrix, std::int64_t row, std::int64_t rows, std::int64_t begin,
                         std::int64_t k, Bf16* panel);
// As pack_columns: one panel out of columns column .. column + 32 of rows row .. row + k; column is a
// multiple of 32.
void pack_quantised_columns(const QuantisedView& matrix, std::int64_t column, std::int64_t row,
                            std::int64_t k, Bf16* panel);

}  // namespace hone::ops::kernels
