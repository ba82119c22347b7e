// The vectors of the attention kernels: 16 floats, and 16 words of a pair of bf16, for the instructions that the
// including file is compiled for: avx512_bf16, avx512 or avx2. Lane by lane the last two do the same, so that their
// kernels have the same bits.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace hone::ops::attention_kernels {
namespace {

using Pair [[gnu::may_alias]] = std::uint32_t;  // two neighboring bf16
using Half [[gnu::may_alias]] = std::uint16_t;
using Mask = std::uint16_t;  // a bit a lane

constexpr float kLog2E = 1.44269504088896341F;
constexpr float kLn2 = 0.693147180559945309F;

#define HONE_VECTOR [[gnu::always_inline]] inline

#if defined(__AVX512F__)

using Floats = __m512;
using Words = __m512i;

HONE_VECTOR Floats zero() {
  return _mm512_setzero_ps();
}
HONE_VECTOR Floats all_of(float x) {
  return _mm512_set1_ps(x);
}
HONE_VECTOR Floats load(const float* p) {
  return _mm512_loadu_ps(p);
}
HONE_VECTOR void store(float* p, Floats x) {
  _mm512_storeu_ps(p, x);
}
HONE_VECTOR Floats add(Floats a, Floats b) {
  return _mm512_add_ps(a, b);
}
HONE_VECTOR Floats subtract(Floats a, Floats b) {
  return _mm512_sub_ps(a, b);
}
HONE_VECTOR Floats times(Floats a, Floats b) {
  return _mm512_mul_ps(a, b);
}
HONE_VECTOR Floats quotient(Floats a, Floats b) {
  return _mm512_div_ps(a, b);
}
// b where a or b is not a number
HONE_VECTOR Floats larger(Floats a, Floats b) {
  return _mm512_max_ps(a, b);
}
HONE_VECTOR Floats smaller(Floats a, Floats b) {
  return _mm512_min_ps(a, b);
}
HONE_VECTOR Floats multiply_add(Floats a, Floats b, Floats c) {
  return _mm512_fmadd_ps(a, b, c);
}
HONE_VECTOR Floats multiply_subtract(Floats a, Floats b, Floats c) {
  return _mm512_fmsub_ps(a, b, c);
}
// x where the mask has a bit, else 0 or `other`.
HONE_VECTOR Floats where(Mask mask, Floats x) {
  return _mm512_maskz_mov_ps(mask, x);
}
HONE_VECTOR Floats where(Mask mask, Floats x, Floats other) {
  return _mm512_mask_mov_ps(other, mask, x);
}
HONE_VECTOR float sum_of(Floats x) {
  return _mm512_reduce_add_ps(x);
}
HONE_VECTOR float largest_of(Floats x) {
  return _mm512_reduce_max_ps(x);
}
HONE_VECTOR Floats nearest_whole(Floats x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
HONE_VECTOR Floats scale_by_power(Floats x, Floats n) {  // x * 2^n, n whole
  return _mm512_scalef_ps(x, n);
}
HONE_VECTOR Words load_words(const void* p) {
  return _mm512_loadu_si512(p);
}
HONE_VECTOR void store_words(void* p, Words x) {
  _mm512_storeu_si512(p, x);
}
HONE_VECTOR Floats lower_of(Words x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
HONE_VECTOR Floats upper_of(Words x) {
  return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
}
HONE_VECTOR Floats load_bf16(const Half* x) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(x));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
// (low[i], high[i]) side by side.
HONE_VECTOR Words interleaved(const Half* low, const Half* high) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(low));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(high));
  return _mm512_or_si512(_mm512_cvtepu16_epi32(a), _mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
}

#if defined(__AVX512BF16__)

HONE_VECTOR void store_bf16(Half* to, Floats x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}
// 32 numbers to bf16 in order, nearest even.
HONE_VECTOR Words to_bf16(Floats low, Floats high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

#else

HONE_VECTOR Words rounded(Floats x) {  // to the nearest even, in the lower half of a word
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_mask_set1_epi32(_mm512_srli_epi32(up, 16), nan, 0x7FC0);
}
HONE_VECTOR void store_bf16(Half* to, Floats x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to), _mm512_cvtepi32_epi16(rounded(x)));
}
HONE_VECTOR Words to_bf16(Floats low, Floats high) {
  const __m256i a = _mm512_cvtepi32_epi16(rounded(low)), b = _mm512_cvtepi32_epi16(rounded(high));
  return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

#endif

// Word i is low[i] and high[i] as bf16.
HONE_VECTOR Words pairs_of(Floats low, Floats high) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, to_bf16(low, high));
}

#else

struct Floats {
  __m256 half[2];
};
struct Words {
  __m256i half[2];
};

template <typename F>
HONE_VECTOR Floats each(F of) {
  return {{of(0), of(1)}};
}

HONE_VECTOR Floats zero() {
  return {{_mm256_setzero_ps(), _mm256_setzero_ps()}};
}
HONE_VECTOR Floats all_of(float x) {
  return {{_mm256_set1_ps(x), _mm256_set1_ps(x)}};
}
HONE_VECTOR Floats load(const float* p) {
  return {{_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}};
}
HONE_VECTOR void store(float* p, Floats x) {
  _mm256_storeu_ps(p, x.half[0]);
  _mm256_storeu_ps(p + 8, x.half[1]);
}
HONE_VECTOR Floats add(Floats a, Floats b) {
  return {{_mm256_add_ps(a.half[0], b.half[0]), _mm256_add_ps(a.half[1], b.half[1])}};
}
HONE_VECTOR Floats subtract(Floats a, Floats b) {
  return {{_mm256_sub_ps(a.half[0], b.half[0]), _mm256_sub_ps(a.half[1], b.half[1])}};
}
HONE_VECTOR Floats times(Floats a, Floats b) {
  return {{_mm256_mul_ps(a.half[0], b.half[0]), _mm256_mul_ps(a.half[1], b.half[1])}};
}
HONE_VECTOR Floats quotient(Floats a, Floats b) {
  return {{_mm256_div_ps(a.half[0], b.half[0]), _mm256_div_ps(a.half[1], b.half[1])}};
}
HONE_VECTOR Floats larger(Floats a, Floats b) {
  return {{_mm256_max_ps(a.half[0], b.half[0]), _mm256_max_ps(a.half[1], b.half[1])}};
}
HONE_VECTOR Floats smaller(Floats a, Floats b) {
  return {{_mm256_min_ps(a.half[0], b.half[0]), _mm256_min_ps(a.half[1], b.half[1])}};
}
HONE_VECTOR Floats multiply_add(Floats a, Floats b, Floats c) {
  return {
      {_mm256_fmadd_ps(a.half[0], b.half[0], c.half[0]), _mm256_fmadd_ps(a.half[1], b.half[1], c.half[1])}};
}
HONE_VECTOR Floats multiply_subtract(Floats a, Floats b, Floats c) {
  return {
      {_mm256_fmsub_ps(a.half[0], b.half[0], c.half[0]), _mm256_fmsub_ps(a.half[1], b.half[1], c.half[1])}};
}
HONE_VECTOR __m256 lanes_of(unsigned mask) {
  const __m256i bit = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1);
  const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(mask)), bit);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, bit));
}
// x where the mask has a bit, else 0 or `other`.
HONE_VECTOR Floats where(Mask mask, Floats x) {
  return {
      {_mm256_and_ps(x.half[0], lanes_of(mask)), _mm256_and_ps(x.half[1], lanes_of(unsigned{mask} >> 8))}};
}
HONE_VECTOR Floats where(Mask mask, Floats x, Floats other) {
  return {{_mm256_blendv_ps(other.half[0], x.half[0], lanes_of(mask)),
           _mm256_blendv_ps(other.half[1], x.half[1], lanes_of(unsigned{mask} >> 8))}};
}
// In the order of AVX-512's reductions: halves, quarters, eighths, neighbors.
HONE_VECTOR float sum_of(Floats x) {
  const __m256 eight = _mm256_add_ps(x.half[1], x.half[0]);
  const __m128 four = _mm_add_ps(_mm256_extractf128_ps(eight, 1), _mm256_castps256_ps128(eight));
  const __m128 two = _mm_add_ps(_mm_movehl_ps(four, four), four);
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
HONE_VECTOR float largest_of(Floats x) {
  const __m256 eight = _mm256_max_ps(x.half[1], x.half[0]);
  const __m128 four = _mm_max_ps(_mm256_extractf128_ps(eight, 1), _mm256_castps256_ps128(eight));
  const __m128 two = _mm_max_ps(_mm_movehl_ps(four, four), four);
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
HONE_VECTOR Floats nearest_whole(Floats x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {{_mm256_round_ps(x.half[0], kNearest), _mm256_round_ps(x.half[1], kNearest)}};
}
// x * 2^n for whole n at most 127; below -126 in two steps, so that it ends in denormal numbers and 0 as scalef does.
HONE_VECTOR __m256 scale_half(__m256 x, __m256 n) {
  const __m256 within = _mm256_max_ps(n, _mm256_set1_ps(-252.0F));
  const __m256i whole = _mm256_cvtps_epi32(within);
  const __m256i first = _mm256_srai_epi32(whole, 1), second = _mm256_sub_epi32(whole, first);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(first, bias), 23));
  const __m256 b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(second, bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(x, a), b);
}
HONE_VECTOR Floats scale_by_power(Floats x, Floats n) {
  return {{scale_half(x.half[0], n.half[0]), scale_half(x.half[1], n.half[1])}};
}
HONE_VECTOR __m256i load_8(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i_u*>(p));
}
HONE_VECTOR void store_8(void* p, __m256i x) {
  _mm256_storeu_si256(static_cast<__m256i_u*>(p), x);
}
HONE_VECTOR Words load_words(const void* p) {
  return {{load_8(p), load_8(static_cast<const Pair*>(p) + 8)}};
}
HONE_VECTOR void store_words(void* p, Words x) {
  store_8(p, x.half[0]);
  store_8(static_cast<Pair*>(p) + 8, x.half[1]);
}
HONE_VECTOR __m256 lower_of(__m256i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}
HONE_VECTOR __m256 upper_of(__m256i x) {
  return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(static_cast<int>(0xFFFF0000U))));
}
HONE_VECTOR __m256i widen_8(const Half* x) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(x)));
}
HONE_VECTOR Floats load_bf16(const Half* x) {
  return {{lower_of(widen_8(x)), lower_of(widen_8(x + 8))}};
}
// (low[i], high[i]) side by side.
HONE_VECTOR Words interleaved(const Half* low, const Half* high) {
  return {{_mm256_or_si256(widen_8(low), _mm256_slli_epi32(widen_8(high), 16)),
           _mm256_or_si256(widen_8(low + 8), _mm256_slli_epi32(widen_8(high + 8), 16))}};
}
HONE_VECTOR __m256i rounded_8(__m256 x) {  // to the nearest even, in the lower half of a word
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), _mm256_set1_epi32(0x7FC0), nan);
}
HONE_VECTOR __m256i to_bf16(Floats x) {  // 16 numbers in order
  const __m256i mixed = _mm256_packus_epi32(rounded_8(x.half[0]), rounded_8(x.half[1]));
  return _mm256_permute4x64_epi64(mixed, 0xD8);
}
HONE_VECTOR void store_bf16(Half* to, Floats x) {
  store_8(to, to_bf16(x));
}
// 32 numbers to bf16 in order, nearest even.
HONE_VECTOR Words to_bf16(Floats low, Floats high) {
  return {{to_bf16(low), to_bf16(high)}};
}
// Word i is low[i] and high[i] as bf16.
HONE_VECTOR Words pairs_of(Floats low, Floats high) {
  return {{_mm256_or_si256(rounded_8(low.half[0]), _mm256_slli_epi32(rounded_8(high.half[0]), 16)),
           _mm256_or_si256(rounded_8(low.half[1]), _mm256_slli_epi32(rounded_8(high.half[1]), 16))}};
}

#endif

// c[r] += sum over p of a[r * row_step + p * pair_step] * b[p * b_step ..], R rows by C vectors of 16: one chain
// per element, in the order of p, for every R and C. A link is vdpbf16ps, or two multiply_add in the order of k.
#if defined(__AVX512BF16__)

template <int R, int C>
HONE_VECTOR void multiply(Floats (&c)[R][C], const Pair* a, std::int64_t row_step, std::int64_t pair_step,
                          const Pair* b, std::int64_t b_step, std::int64_t pairs) {
  for (std::int64_t p = 0; p < pairs; ++p) {
    __m512bh right[C];
#pragma GCC unroll 2
    for (int i = 0; i < C; ++i) right[i] = reinterpret_cast<__m512bh>(load_words(b + p * b_step + 16 * i));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512bh left =
          reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[r * row_step + p * pair_step])));
#pragma GCC unroll 2
      for (int i = 0; i < C; ++i) c[r][i] = _mm512_dpbf16_ps(c[r][i], left, right[i]);
    }
  }
}

#elif defined(__AVX512F__)

template <int R, int C>
HONE_VECTOR void multiply(Floats (&c)[R][C], const Pair* a, std::int64_t row_step, std::int64_t pair_step,
                          const Pair* b, std::int64_t b_step, std::int64_t pairs) {
  for (std::int64_t p = 0; p < pairs; ++p) {
    Floats even[C], odd[C];
#pragma GCC unroll 2
    for (int i = 0; i < C; ++i) {
      const Words right = load_words(b + p * b_step + 16 * i);
      even[i] = lower_of(right);
      odd[i] = upper_of(right);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Words left = _mm512_set1_epi32(static_cast<int>(a[r * row_step + p * pair_step]));
#pragma GCC unroll 2
      for (int i = 0; i < C; ++i) c[r][i] = multiply_add(lower_of(left), even[i], c[r][i]);
#pragma GCC unroll 2
      for (int i = 0; i < C; ++i) c[r][i] = multiply_add(upper_of(left), odd[i], c[r][i]);
    }
  }
}

#else

// Rows x one vector of 16: 2 * Rows of 16 registers.
template <int Rows, int R, int C>
HONE_VECTOR void multiply_some(Floats (&c)[R][C], int row, int i, const Pair* a, std::int64_t row_step,
                               std::int64_t pair_step, const Pair* b, std::int64_t b_step,
                               std::int64_t pairs) {
  __m256 sum[Rows][2];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    sum[r][0] = c[row + r][i].half[0];
    sum[r][1] = c[row + r][i].half[1];
  }
  for (std::int64_t p = 0; p < pairs; ++p) {
    const __m256i right0 = load_8(b + p * b_step + 16 * i), right1 = load_8(b + p * b_step + 16 * i + 8);
    const __m256 even0 = lower_of(right0), even1 = lower_of(right1);
    const __m256 odd0 = upper_of(right0), odd1 = upper_of(right1);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const __m256i left = _mm256_set1_epi32(static_cast<int>(a[(row + r) * row_step + p * pair_step]));
      sum[r][0] = _mm256_fmadd_ps(lower_of(left), even0, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(lower_of(left), even1, sum[r][1]);
      sum[r][0] = _mm256_fmadd_ps(upper_of(left), odd0, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(upper_of(left), odd1, sum[r][1]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    c[row + r][i].half[0] = sum[r][0];
    c[row + r][i].half[1] = sum[r][1];
  }
}

template <int R, int C>
HONE_VECTOR void multiply(Floats (&c)[R][C], const Pair* a, std::int64_t row_step, std::int64_t pair_step,
                          const Pair* b, std::int64_t b_step, std::int64_t pairs) {
  for (int i = 0; i < C; ++i) {
    int row = 0;
    for (; row + 4 <= R; row += 4) multiply_some<4>(c, row, i, a, row_step, pair_step, b, b_step, pairs);
    if constexpr (R % 4 != 0) multiply_some<R % 4>(c, row, i, a, row_step, pair_step, b, b_step, pairs);
  }
}

#endif

// 2^x to 1e-7 relative: (2^r - 1) / r interpolated at the six Chebyshev points of [-0.5, 0.5] (5e-9 from
// truth, and 2^0 is exactly 1), times 2^round(x). Below -150 it is 0.
HONE_VECTOR Floats exp2_16(Floats x) {
  const Floats n = nearest_whole(x);
  const Floats r = subtract(x, n);
  Floats p = all_of(1.545316294e-4F);
  p = multiply_add(p, r, all_of(1.3390863365e-3F));
  p = multiply_add(p, r, all_of(9.6180825573e-3F));
  p = multiply_add(p, r, all_of(5.5503571142e-2F));
  p = multiply_add(p, r, all_of(2.4022650761e-1F));
  p = multiply_add(p, r, all_of(6.9314718803e-1F));
  p = multiply_add(p, r, all_of(1.0F));
  return scale_by_power(p, n);
}

// tanh as in row_kernels_body.h: a quotient of polynomials, to 4e-7 relative. NaN stays NaN.
HONE_VECTOR Floats tanh_16(Floats x) {
  x = larger(all_of(-7.90531110763549805F), smaller(all_of(7.90531110763549805F), x));
  const Floats z = times(x, x);
  Floats p = all_of(-2.76076847742355e-16F);
  p = multiply_add(p, z, all_of(2.00018790482477e-13F));
  p = multiply_add(p, z, all_of(-8.60467152213735e-11F));
  p = multiply_add(p, z, all_of(5.12229709037114e-08F));
  p = multiply_add(p, z, all_of(1.48572235717979e-05F));
  p = multiply_add(p, z, all_of(6.37261928875436e-04F));
  p = multiply_add(p, z, all_of(4.89352455891786e-03F));
  Floats q = all_of(1.19825839466702e-06F);
  q = multiply_add(q, z, all_of(1.18534705686654e-04F));
  q = multiply_add(q, z, all_of(2.26843463243900e-03F));
  q = multiply_add(q, z, all_of(4.89352518554385e-03F));
  return quotient(times(x, p), q);
}

HONE_VECTOR void copy_row(Half* to, const Half* from, std::int64_t head_dim) {
  __builtin_memcpy(to, from, static_cast<std::size_t>(head_dim) * sizeof(Half));
}

HONE_VECTOR std::int64_t clamp(std::int64_t x, std::int64_t low, std::int64_t high) {
  return x < low ? low : (x > high ? high : x);
}

// Bits [low, high) of 64.
HONE_VECTOR std::uint64_t bits(std::int64_t low, std::int64_t high) {
  if (high <= low) return 0;
  const std::uint64_t below = high == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << high) - 1;
  return below >> low << low;
}

#undef HONE_VECTOR

}  // namespace
}  // namespace hone::ops::attention_kernels
