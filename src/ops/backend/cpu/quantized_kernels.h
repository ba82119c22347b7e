// Dequantizing on raw pointers, and products of few rows straight from codes. bf16 as its 16 bits.
//
// A quantized matrix [out, in] lies in one of two orders. In rows, as a file has it: any machine, a number at a time.
// In panels of 32 rows, as the GEMM reads it: each vector lane takes a row, so that nothing is transposed. Panels are
// for avx2 and above; the portable form of each function here defines it.
#pragma once

#include <cstdint>

#include "ops/backend/cpu/gemm_kernels.h"

namespace hone::ops::kernels {

// A matrix in rows. Number i of the flattened matrix belongs to scale i / block.
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
float scale_at(const QuantizedView& matrix, std::int64_t block);

// Says where a group of `group` neighboring numbers of a row has its scale. G groups a row; S = in / 256.
enum class PanelScales : std::uint8_t {
  kOfRows,       // QuantizedView's: one group a row, or blocks of whole rows
  kHalf,         // fp16 [panel][G][32]
  kHalfTimes8,   // fp16 [panel][S][32] times int8 [panel][G][32]
  kWithMinimum,  // scale and minimum: fp16 [panel][S][2][32], each times uint8 [panel][G][2][32]
};

// A matrix in panels. The value of a number is value(code) * scale, each product and difference rounded to fp32; with a
// minimum, value(code) * scale - minimum.
struct PanelView {
  int bits = 4;  // of a code: 4, 5, 6 or 8
  // 4 to 6 bits: the lower 4, words [panel][in / 8][32], the first number in a word's lowest bits; 8: int8 [panel][in][32].
  const std::uint8_t* low = nullptr;
  // 5 bits: the fifth, words [panel][in / 32][32]; 6: the upper two, words [panel][in / 16][32].
  const std::uint8_t* high = nullptr;
  // [16]: the value of the lower 4 bits, to which 16 times the upper ones are added. 5 and 6 bits: whole numbers in
  // order. Null: 8 bits, whose value is the code.
  const float* table = nullptr;
  PanelScales scale_kind = PanelScales::kOfRows;
  QuantizedView of_rows;                 // kOfRows: its scales
  const std::uint8_t* halves = nullptr;  // the others' fp16
  const std::uint8_t* bytes = nullptr;   // and their factors of 8 bits
  std::int64_t group = 64;               // numbers a scale: a multiple of 16
  std::int64_t in = 0;                   // a multiple of 64
  // No value other than zero is outside 2^-120 .. 2^100: what products of few rows rely on.
  bool is_tame = false;
};

// Numbers begin .. begin + k of the 32 rows of a panel, as gemm_kernels.h has a panel: words of two bf16 [k / 2][32], or
// float32 [k][32]. begin is a multiple of 32, k of 32.
struct Unpack {
  std::int64_t panel = 0, begin = 0, k = 0;
  bool is_float = false;
  Word* to = nullptr;
};
void unpack_panel(const PanelView& matrix, const Unpack& run);
void unpack_panel_avx2(const PanelView& matrix, const Unpack& run);
void unpack_panel_avx512(const PanelView& matrix, const Unpack& run);
void unpack_panel_avx512_bf16(const PanelView& matrix, const Unpack& run);

constexpr std::int64_t kCodedRows = 8;  // of a product straight from codes, at most

// sums [rows, 32] = from + a times numbers begin .. begin + k of a panel: the chain of multiply_add of gemm_fma_body.h.
// The matrix is tame; begin and k are multiples of 32. Strides of sums in floats.
struct CodedRun {
  const PanelView* matrix = nullptr;
  std::int64_t panel = 0, begin = 0, k = 0;
  bool is_float = false;        // else numbers are rounded to bf16
  std::int64_t rows = 0;        // at most kCodedRows
  const void* a = nullptr;      // floats; of multiply_codes_dot bf16
  std::int64_t a_stride = 0;    // numbers
  const float* from = nullptr;  // null: zero
  std::int64_t from_stride = 0;
  float* to = nullptr;
  std::int64_t to_stride = 0;
};
void multiply_codes_avx2(const CodedRun& run);
void multiply_codes_avx512(const CodedRun& run);
// With the sums of the dot form, by avx512_bf16: of bf16 only.
void multiply_codes_dot(const CodedRun& run);
// With the sums of the amx form, by AVX-512: of bf16 only. tdpbf16ps takes numbers below 2^-126 for zero and makes them
// zero: so must the caller, with kFlushToZero in mxcsr.
void multiply_codes_amx(const CodedRun& run);
constexpr unsigned kFlushToZero = 0x8040;

// GemmKernels::multiply_block of the amx form for at most kAmxCodedRows rows with slices of codes among them; row_scratch
// of coded_scratch_bytes_amx. More rows are multiplied faster by tiles, once the codes are unpacked.
constexpr std::int64_t kAmxCodedRows = 4;
void multiply_coded_block_amx(const Block& block);
std::int64_t coded_scratch_bytes_amx(const Block& block);

}  // namespace hone::ops::kernels
