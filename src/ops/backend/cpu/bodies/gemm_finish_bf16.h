// The epilogue of the forms dot and amx, for files that are compiled for avx512 with bf16 (cmake/Folders.cmake).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "ops/backend/cpu/bodies/avx512_masks.h"
#include "ops/backend/cpu/gemm_kernels.h"

namespace hone::ops::kernels {

// 16 floats at element `i` of fp32 or bf16 numbers.
[[gnu::always_inline]] inline __m512 load_floats(const void* p, std::int64_t i, bool is_bf16,
                                                 __mmask16 mask) {
  if (!is_bf16) return _mm512_maskz_loadu_ps(mask, static_cast<const float*>(p) + i);
  const __m256i half = _mm256_maskz_loadu_epi16(mask, static_cast<const Bf16*>(p) + i);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// The sums of a tile, written where `finish` says: rows [row, row + rows) and columns [column, column + columns) there.
[[gnu::always_inline]] inline void finish_tile(const float* sums, std::int64_t stride, std::int64_t row,
                                               std::int64_t rows, std::int64_t column, std::int64_t columns,
                                               const Finish& finish) {
  const __m512 scale = _mm512_set1_ps(finish.scale);
  for (std::int64_t c = 0; c < columns; c += 16) {
    const __mmask16 mask = first_floats(columns - c);
    const __m512 bias = finish.bias == nullptr
                            ? _mm512_setzero_ps()
                            : load_floats(finish.bias, column + c, finish.bias_is_bf16, mask);
    for (std::int64_t r = 0; r < rows; ++r) {
      __m512 x = _mm512_mul_ps(_mm512_loadu_ps(sums + r * stride + c), scale);
      if (finish.bias != nullptr) x = _mm512_add_ps(x, bias);
      if (finish.residual != nullptr) {
        const std::int64_t at = (row + r) * finish.residual_stride + column + c;
        x = _mm512_add_ps(x, load_floats(finish.residual, at, finish.residual_is_bf16, mask));
      }
      const std::int64_t at = (row + r) * finish.out_stride + column + c;
      if (finish.out_is_bf16) {
        const __m256i half = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
        _mm256_mask_storeu_epi16(static_cast<Bf16*>(finish.out) + at, mask, half);
      } else {
        _mm512_mask_storeu_ps(static_cast<float*>(finish.out) + at, mask, x);
      }
    }
  }
}

}  // namespace hone::ops::kernels
