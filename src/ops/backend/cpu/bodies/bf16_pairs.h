// Pairs of neighboring bf16, for files that are compiled for avx512_bf16 (cmake/Folders.cmake).
#pragma once

#include <immintrin.h>

#include "ops/backend/cpu/gemm_kernels.h"

namespace hone::ops::kernels {

[[gnu::always_inline]] inline __m512bh load_pairs(const Bf16* p) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
}

[[gnu::always_inline]] inline __m512bh broadcast_pair(const Bf16* p) {
  int pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

}  // namespace hone::ops::kernels
