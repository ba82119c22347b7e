// Compiled for avx512 f, bw, dq and vl as a whole (cmake/Folders.cmake): nothing of std here, whose inline copies
// would carry these instructions into the rest of the program.
#include "ops/backend/cpu/gemm_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>

#include "ops/backend/cpu/bodies/avx512_masks.h"
#include "ops/backend/cpu/bodies/transpose.h"

namespace hone::ops::kernels {
namespace {

using std::int64_t;

// Two rows of 32 numbers to pairs: columns 0..15 in `lower`, 16..31 in `upper`.
struct Interleave {
  const __m512i lower = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                         38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i upper = _mm512_set_epi16(63, 31, 62, 30, 61, 29, 60, 28, 59, 27, 58, 26, 57, 25, 56, 24, 55,
                                         23, 54, 22, 53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16);
  [[gnu::always_inline]] inline void operator()(__m512i row0, __m512i row1, Word* pairs) const {
    _mm512_storeu_si512(pairs, _mm512_permutex2var_epi16(row0, lower, row1));
    _mm512_storeu_si512(pairs + 16, _mm512_permutex2var_epi16(row0, upper, row1));
  }
};

// 16 rows x 32 k of W to half a panel; the masked form has fewer rows, or fewer k.
template <bool Masked>
[[gnu::always_inline]] inline void pack_square(const Bf16* w, int64_t stride, int64_t rows, int64_t k,
                                               Word* half) {
  const __mmask32 mask = first_words(k);
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if constexpr (Masked) {
      r[i] = i < rows ? _mm512_maskz_loadu_epi16(mask, w + i * stride) : _mm512_setzero_si512();
    } else {
      r[i] = _mm512_loadu_si512(w + i * stride);
    }
  }
  transpose(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (!Masked || 2 * i < k) _mm512_storeu_si512(half + i * kPanelWide, r[i]);
  }
}

void pack_half(const Bf16* w, int64_t stride, int64_t rows, int64_t k, Word* half) {
  int64_t begin = 0;
  if (rows >= 16) {
    for (; begin + 32 <= k; begin += 32) pack_square<false>(w + begin, stride, 16, 32, half + begin * 16);
  }
  for (; begin < k; begin += 32) pack_square<true>(w + begin, stride, rows, k - begin, half + begin * 16);
}

}  // namespace

void pack_rows_avx512(const Bf16* w, int64_t stride, int64_t rows, int64_t k, Word* panel) {
  pack_half(w, stride, rows, k, panel);
  if (rows > 16) pack_half(w + 16 * stride, stride, rows - 16, k, panel + 16);
}

void pack_columns_avx512(const Bf16* w, int64_t stride, int64_t columns, int64_t k, bool next, Word* panel) {
  const __mmask32 mask = first_words(columns);
  const Interleave interleave;
  int64_t row = 0;
  for (; row + 2 <= k; row += 2) {
    const Bf16* row0 = w + row * stride;
    const Bf16* row1 = row0 + stride;
    if (next) {
      _mm_prefetch(row0 + 32, _MM_HINT_T0);
      _mm_prefetch(row1 + 32, _MM_HINT_T0);
    }
    interleave(_mm512_maskz_loadu_epi16(mask, row0), _mm512_maskz_loadu_epi16(mask, row1), panel + row * 16);
  }
  if (row < k) {
    interleave(_mm512_maskz_loadu_epi16(mask, w + row * stride), _mm512_setzero_si512(), panel + row * 16);
  }
}

void repack_avx512(const Word* panels, int64_t panel_stride, int64_t pair, int64_t columns, int64_t k,
                   Word* panel) {
  const int64_t pairs = smaller((columns + 1) / 2, 16);
  const Interleave interleave;
  for (int64_t row = 0; row < k; row += 16) {  // half a panel of W: 16 pairs of in x 16 rows
    const Word* from = panels + row / 32 * panel_stride + pair * kPanelWide + row % 32;
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      r[i] = i < pairs ? _mm512_loadu_si512(from + i * kPanelWide) : _mm512_setzero_si512();
    }
    transpose(r);  // 16 rows of W, 32 numbers each
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      if (row + 2 * i < k) interleave(r[2 * i], r[2 * i + 1], panel + (row + 2 * i) * 16);
    }
  }
}

void transpose_avx512(const Bf16* from, int64_t stride, int64_t rows, int64_t columns, Bf16* to,
                      int64_t to_stride) {
  const Interleave interleave;
  alignas(64) Word pairs[16 * kPanelWide];
  for (int64_t row = 0; row < rows; row += 32) {
    const __mmask32 row_mask = first_words(rows - row);
    for (int64_t column = 0; column < columns; column += 32) {
      const __mmask32 mask = first_words(columns - column);
      const auto load = [&](int64_t i) __attribute__((always_inline)) {
        return i < rows ? _mm512_maskz_loadu_epi16(mask, from + i * stride + column) : _mm512_setzero_si512();
      };
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i)
        interleave(load(row + 2 * i), load(row + 2 * i + 1), pairs + i * kPanelWide);
      for (int64_t half = 0; half < 32; half += 16) {
        __m512i r[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) r[i] = _mm512_load_si512(pairs + i * kPanelWide + half);
        transpose(r);
        const int64_t n = smaller(columns - column - half, 16);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          if (i < n) _mm512_mask_storeu_epi16(to + (column + half + i) * to_stride + row, row_mask, r[i]);
        }
      }
    }
  }
}

}  // namespace hone::ops::kernels

#else

namespace hone::ops::kernels {

void pack_rows_avx512(const Bf16*, std::int64_t, std::int64_t, std::int64_t, Word*) {}
void pack_columns_avx512(const Bf16*, std::int64_t, std::int64_t, std::int64_t, bool, Word*) {}
void repack_avx512(const Word*, std::int64_t, std::int64_t, std::int64_t, std::int64_t, Word*) {}
void transpose_avx512(const Bf16*, std::int64_t, std::int64_t, std::int64_t, Bf16*, std::int64_t) {}

}  // namespace hone::ops::kernels

#endif
