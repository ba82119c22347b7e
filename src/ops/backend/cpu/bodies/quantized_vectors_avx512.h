// The vectors of quantized_panels_body.h with AVX-512, but for pack_pair. For files that are compiled for avx512
// (cmake/Folders.cmake).
#pragma once

#include <immintrin.h>

#include "ops/backend/cpu/quantized_kernels.h"

namespace hone::ops::kernels {
namespace {

using Floats = __m512;
using Ints = __m512i;
constexpr std::int64_t kLanes = 16;

struct Table {
  __m512 values;
};
[[gnu::always_inline]] inline Table table_of(const float* p) {
  return {p == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(p)};
}
// Only the lowest 4 bits of an index count.
template <int Shift>
[[gnu::always_inline]] inline Floats lookup(const Table& table, Ints words) {
  return _mm512_permutexvar_ps(_mm512_srli_epi32(words, Shift), table.values);
}

[[gnu::always_inline]] inline Floats zero() {
  return _mm512_setzero_ps();
}
[[gnu::always_inline]] inline Floats load(const float* p) {
  return _mm512_loadu_ps(p);
}
[[gnu::always_inline]] inline Ints load_words(const void* p) {
  return _mm512_loadu_si512(p);
}
[[gnu::always_inline]] inline void store(float* p, Floats x) {
  _mm512_storeu_ps(p, x);
}
[[gnu::always_inline]] inline void store_words(Word* p, Ints x) {
  _mm512_storeu_si512(p, x);
}
[[gnu::always_inline]] inline Floats broadcast(const float* p) {
  return _mm512_set1_ps(*p);
}
[[gnu::always_inline]] inline Floats plus(Floats a, Floats b) {
  return _mm512_add_ps(a, b);
}
[[gnu::always_inline]] inline Floats times(Floats a, Floats b) {
  return _mm512_mul_ps(a, b);
}
[[gnu::always_inline]] inline Floats minus(Floats a, Floats b) {
  return _mm512_sub_ps(a, b);
}
[[gnu::always_inline]] inline Floats multiply_add(Floats a, Floats b, Floats c) {
  return _mm512_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Floats multiply_less(Floats a, Floats b, Floats c) {
  return _mm512_fnmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline void prefetch(const void* p) {
  _mm_prefetch(p, _MM_HINT_T1);
}
[[gnu::always_inline]] inline Floats from_int8(const std::uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
[[gnu::always_inline]] inline Floats from_uint8(const std::uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
[[gnu::always_inline]] inline Floats from_halves(const std::uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
[[gnu::always_inline]] inline Ints shifted_right(Ints words, int n) {
  return _mm512_srl_epi32(words, _mm_cvtsi32_si128(n));
}
// Code `J` of 8: 4 bits of `low`, the others of `high`.
template <int Bits, int J>
[[gnu::always_inline]] inline Floats code_of(const Table& table, Ints low, Ints high) {
  const Floats lower = lookup<4 * J>(table, low);
  if constexpr (Bits == 5) {
    const __mmask16 fifth = _mm512_test_epi32_mask(high, _mm512_set1_epi32(1 << J));
    return _mm512_mask_add_ps(lower, fifth, lower, _mm512_set1_ps(16));
  } else {  // bits above the two are other codes': the values lie there four times
    const __m512 upper = _mm512_set_ps(48, 32, 16, 0, 48, 32, 16, 0, 48, 32, 16, 0, 48, 32, 16, 0);
    return _mm512_add_ps(lower, _mm512_permutexvar_ps(_mm512_srli_epi32(high, 2 * J), upper));
  }
}
[[gnu::always_inline]] inline Floats power_of(Floats x) {
  const Ints mask = _mm512_set1_epi32(static_cast<int>(0xFF800000U));
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), mask));
}

}  // namespace
}  // namespace hone::ops::kernels
