// Compiled for avx512 f, bw, dq, vl and bf16 as a whole (CMakeLists.txt): nothing of std here, whose inline
// copies would carry these instructions into the rest of the program. Without contraction: see
// quantized_rows.cpp.
//
// A block of 4-bit codes has 16 different values: they are scaled and rounded once, and each code then picks
// its own, 32 of them an instruction.
#include "ops/cpu/quantized_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>

#include "ops/cpu/transpose.h"

namespace hone::ops::kernels {
namespace {

using std::int64_t;

constexpr int64_t kPairStep = 64;  // numbers from one pair of k to the next in a panel
constexpr int kHalf = 16;          // rows of half a panel

[[gnu::always_inline]] inline float scale_of(const QuantizedView& matrix, int64_t block) {
  if (matrix.scales != nullptr) return matrix.scales[block];
  const float scaled =
      matrix.scale_table[matrix.scale_codes[block]] * matrix.scale_scales[block / matrix.scale_block];
  return scaled + matrix.scale_offset;
}

// The 16 values of a block as bf16, twice.
[[gnu::always_inline]] inline __m512i values_of(__m512 table, float scale) {
  const __m256i values =
      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_mul_ps(table, _mm512_set1_ps(scale))));
  return _mm512_inserti64x4(_mm512_castsi256_si512(values), values, 1);
}

// 32 codes of 16 bytes, the upper half of a byte first. An index's bits above the fourth are another code's:
// the values lie there twice, so that the fifth changes nothing, and no more are read.
[[gnu::always_inline]] inline __m512i pick(__m512i values, const std::uint8_t* codes) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  const __m512i index = _mm512_or_si512(_mm512_srli_epi32(bytes, 4), _mm512_slli_epi32(bytes, 16));
  return _mm512_permutexvar_epi16(index, values);
}

// 32 8-bit codes times their row's scale.
[[gnu::always_inline]] inline __m512i scale_codes(const std::uint8_t* codes, float scale) {
  const auto* from = reinterpret_cast<const __m128i*>(codes);
  const __m512 by = _mm512_set1_ps(scale);
  const __m512 lower = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from)));
  const __m512 upper = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from + 1)));
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_mul_ps(upper, by), _mm512_mul_ps(lower, by)));
}

// 16 rows x 32 k, transposed in pairs of k; missing rows are zero.
[[gnu::always_inline]] inline void store_square(__m512i (&r)[16], Bf16* half) {
  transpose(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(half + i * kPairStep, r[i]);
}

// Half a panel: rows row .. row + rows <= 16.
void pack_half(const QuantizedView& matrix, int64_t row, int64_t rows, int64_t begin, int64_t k, Bf16* half) {
  const __m512 table = _mm512_loadu_ps(matrix.table);
  for (int64_t at = begin; at < begin + k; at += 64) {
    __m512i values[kHalf];
    __m512i r[kHalf];
#pragma GCC unroll 16
    for (int i = 0; i < kHalf; ++i) {
      if (i >= rows) {
        values[i] = r[i] = _mm512_setzero_si512();
        continue;
      }
      const int64_t first = (row + i) * matrix.in + at;
      values[i] = values_of(table, scale_of(matrix, first / matrix.block));
      r[i] = pick(values[i], matrix.codes + first / 2);
    }
    store_square(r, half + (at - begin) * 32);
#pragma GCC unroll 16
    for (int i = 0; i < kHalf; ++i) {
      r[i] = i < rows ? pick(values[i], matrix.codes + ((row + i) * matrix.in + at + 32) / 2)
                      : _mm512_setzero_si512();
    }
    store_square(r, half + (at + 32 - begin) * 32);
  }
}

void pack_half_8bit(const QuantizedView& matrix, int64_t row, int64_t rows, int64_t begin, int64_t k,
                    Bf16* half) {
  for (int64_t at = begin; at < begin + k; at += 32) {
    __m512i r[kHalf];
#pragma GCC unroll 16
    for (int i = 0; i < kHalf; ++i) {
      r[i] = i < rows ? scale_codes(matrix.codes + (row + i) * matrix.in + at, matrix.scales[row + i])
                      : _mm512_setzero_si512();
    }
    store_square(r, half + (at - begin) * 32);
  }
}

// 32 columns of one row.
[[gnu::always_inline]] inline __m512i row_of(const QuantizedView& matrix, __m512 table, int64_t row,
                                             int64_t column) {
  const int64_t first = row * matrix.in + column;
  if (matrix.table == nullptr) return scale_codes(matrix.codes + first, matrix.scales[row]);
  return pick(values_of(table, scale_of(matrix, first / matrix.block)), matrix.codes + first / 2);
}

}  // namespace

bool has_quantized_panels(const QuantizedView& matrix) {
  if (matrix.in % 64 != 0) return false;
  return matrix.table == nullptr ? matrix.block == matrix.in : matrix.block % 64 == 0;
}

void pack_quantized_rows(const QuantizedView& matrix, int64_t row, int64_t rows, int64_t begin, int64_t k,
                         Bf16* panel) {
  const auto pack = matrix.table == nullptr ? pack_half_8bit : pack_half;
  pack(matrix, row, rows < kHalf ? rows : kHalf, begin, k, panel);
  if (rows > kHalf) pack(matrix, row + kHalf, rows - kHalf, begin, k, panel + 32);
}

void pack_quantized_columns(const QuantizedView& matrix, int64_t column, int64_t row, int64_t k,
                            Bf16* panel) {
  // Two rows of 32 numbers to pairs: columns 0..15, then 16..31.
  const __m512i lower = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                         38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i upper = _mm512_set_epi16(63, 31, 62, 30, 61, 29, 60, 28, 59, 27, 58, 26, 57, 25, 56, 24, 55,
                                         23, 54, 22, 53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16);
  const __m512 table = matrix.table == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(matrix.table);
  for (int64_t i = 0; i < k; i += 2) {
    const __m512i first = row_of(matrix, table, row + i, column);
    const __m512i second = i + 1 < k ? row_of(matrix, table, row + i + 1, column) : _mm512_setzero_si512();
    _mm512_storeu_si512(panel + i * 32, _mm512_permutex2var_epi16(first, lower, second));
    _mm512_storeu_si512(panel + i * 32 + 32, _mm512_permutex2var_epi16(first, upper, second));
  }
}

}  // namespace hone::ops::kernels

#else

namespace hone::ops::kernels {

bool has_quantized_panels(const QuantizedView&) {
  return false;
}
void pack_quantized_rows(const QuantizedView&, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         Bf16*) {}
void pack_quantized_columns(const QuantizedView&, std::int64_t, std::int64_t, std::int64_t, Bf16*) {}

}  // namespace hone::ops::kernels

#endif
