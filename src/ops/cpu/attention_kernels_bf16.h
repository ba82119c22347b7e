// Shared by the AVX512-BF16 attention kernels. Include it only in files compiled with those instructions.
#pragma once

#if defined(__AVX512BF16__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace hone::ops::attention_kernels {
namespace {

using Pair [[gnu::may_alias]] = std::uint32_t;  // two neighboring bf16
using Half [[gnu::may_alias]] = std::uint16_t;

constexpr float kLog2E = 1.44269504088896341F;
constexpr float kLn2 = 0.693147180559945309F;

// c[r] += sum over p of a[r * row_step + p * pair_step] * b[p * b_step ..], R rows by C vectors of 16: one
// chain of vdpbf16ps per element, in the order of p, for every R and C.
template <int R, int C>
[[gnu::always_inline]] inline void multiply(__m512 (&c)[R][C], const Pair* a, std::int64_t row_step,
                                            std::int64_t pair_step, const Pair* b, std::int64_t b_step,
                                            std::int64_t pairs) {
  for (std::int64_t p = 0; p < pairs; ++p) {
    __m512bh right[C];
#pragma GCC unroll 2
    for (int i = 0; i < C; ++i)
      right[i] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + p * b_step + 16 * i));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512bh left =
          reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[r * row_step + p * pair_step])));
#pragma GCC unroll 2
      for (int i = 0; i < C; ++i) c[r][i] = _mm512_dpbf16_ps(c[r][i], left, right[i]);
    }
  }
}

// 2^x to 1e-7 relative: (2^r - 1) / r interpolated at the six Chebyshev points of [-0.5, 0.5] (5e-9 from
// truth, and 2^0 is exactly 1), times 2^round(x). Below -150 it is 0.
[[gnu::always_inline]] inline __m512 exp2_16(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 r = _mm512_sub_ps(x, n);
  __m512 p = _mm512_set1_ps(1.545316294e-4F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3390863365e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.6180825573e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.5503571142e-2F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.4022650761e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.9314718803e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(p, n);
}

// 32 numbers to bf16 in order, nearest even.
[[gnu::always_inline]] inline __m512i to_bf16(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

[[gnu::always_inline]] inline __m512 load_bf16(const Half* x) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(x));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

[[gnu::always_inline]] inline void store_bf16(Half* to, __m512 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}

[[gnu::always_inline]] inline void copy_row(Half* to, const Half* from, std::int64_t head_dim) {
  for (std::int64_t d = 0; d < head_dim; d += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to + d),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from + d)));
  }
}

[[gnu::always_inline]] inline std::int64_t clamp(std::int64_t x, std::int64_t low, std::int64_t high) {
  return x < low ? low : (x > high ? high : x);
}

// Bits [low, high) of 64.
[[gnu::always_inline]] inline std::uint64_t bits(std::int64_t low, std::int64_t high) {
  if (high <= low) return 0;
  const std::uint64_t below = high == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << high) - 1;
  return below >> low << low;
}

}  // namespace
}  // namespace hone::ops::attention_kernels
#endif
