#include "ops/backend/cpu/logprob_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define HONE_AVX2 [[gnu::target("avx2,fma")]]
#define HONE_INLINE [[gnu::target("avx2,fma"), gnu::always_inline]]
#define HONE_UNROLL _Pragma("GCC unroll 4")

namespace hone::ops::kernels {
namespace {

constexpr std::int64_t kLanes = 8;
constexpr std::int64_t kStep = 4 * kLanes;
constexpr float kNone = -__builtin_inff();

// exp(z) for z <= 0 or so: 2^n (1 + r + r^2 P(r)) with |r| <= ln 2 / 2. P is a least-squares fit at
// Chebyshev's points, off by 4e-9 before rounding. `z` comes back finite (or NaN), so that an impossible
// token has z exp(z) = 0.
HONE_INLINE inline __m256 exp_of(__m256& z) {
  const __m256 least = _mm256_set1_ps(-87.3F);  // 2^n stays a normal number
  const __m256 alive = _mm256_cmp_ps(z, least, _CMP_NLT_UQ);
  z = _mm256_max_ps(least, z);  // in this order NaN stays
  // 1.5 * 2^23 leaves no bits for a fraction: n is rounded, and stands in the low bits too
  const __m256 whole = _mm256_set1_ps(0x1.8p23F);
  const __m256 shifted = _mm256_fmadd_ps(z, _mm256_set1_ps(1.44269504F), whole);
  const __m256 n = _mm256_sub_ps(shifted, whole);
  // ln 2 in two parts, the first exact in n * it
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1F), z);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20F), r);
  __m256 p = _mm256_set1_ps(0x1.687a02p-10F);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.123c5p-7F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555b6p-5F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.55548ep-3F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.fffff8p-2F));
  p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
  const __m256i power = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  const __m256 scale = _mm256_castsi256_ps(_mm256_add_epi32(power, _mm256_set1_epi32(127 << 23)));
  const __m256 e = _mm256_fmadd_ps(p, scale, scale);
  return _mm256_and_ps(e, alive);
}

// To bf16 in the low half of each lane, to the nearest even.
HONE_INLINE inline __m256i round_to_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
}

HONE_INLINE inline void store_bf16(std::uint16_t* to, __m256 low, __m256 high) {
  const __m256i mixed = _mm256_packus_epi32(round_to_bf16(low), round_to_bf16(high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(mixed, 0xD8));
}

struct Lanes {
  __m256 sum[4], dot[4];
};

HONE_INLINE inline void exp_step(const float* x, __m256 base, __m256 scale, __m256 factor, float* wide,
                                 std::uint16_t* narrow, Lanes& lanes) {
  __m256 e[4];
  HONE_UNROLL for (int i = 0; i < 4; ++i) {
    __m256 z = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i * kLanes), base), scale);
    e[i] = exp_of(z);
    lanes.sum[i] = _mm256_add_ps(lanes.sum[i], e[i]);
    lanes.dot[i] = _mm256_fmadd_ps(z, e[i], lanes.dot[i]);
    e[i] = _mm256_mul_ps(e[i], factor);
  }
  if (wide != nullptr) {
    HONE_UNROLL for (int i = 0; i < 4; ++i) _mm256_storeu_ps(wide + i * kLanes, e[i]);
  }
  if (narrow != nullptr) {
    store_bf16(narrow, e[0], e[1]);
    store_bf16(narrow + 2 * kLanes, e[2], e[3]);
  }
}

HONE_INLINE inline double total(const __m256 (&parts)[4]) {
  float lane[kLanes];
  double sum = 0;
  for (const __m256& part : parts) {
    _mm256_storeu_ps(lane, part);
    for (const float value : lane) sum += static_cast<double>(value);
  }
  return sum;
}

}  // namespace

HONE_AVX2 float peak_avx2(const float* x, std::int64_t n) {
  __m256 most[4];
  for (__m256& m : most) m = _mm256_set1_ps(kNone);
  std::int64_t at = 0;
  for (; at + kStep <= n; at += kStep) {
    HONE_UNROLL for (int i = 0; i < 4; ++i) most[i] =
        _mm256_max_ps(_mm256_loadu_ps(x + at + i * kLanes), most[i]);
  }
  float peak = kNone;
  for (; at < n; ++at) peak = x[at] > peak ? x[at] : peak;
  float lane[kLanes];
  for (const __m256& m : most) {
    _mm256_storeu_ps(lane, m);
    for (const float value : lane) peak = value > peak ? value : peak;
  }
  return peak;
}

HONE_AVX2 ExpSums exp_avx2(const float* x, std::int64_t n, float base, float scale, float factor, float* wide,
                           std::uint16_t* narrow) {
  const __m256 bases = _mm256_set1_ps(base);
  const __m256 scales = _mm256_set1_ps(scale);
  const __m256 factors = _mm256_set1_ps(factor);
  Lanes lanes;
  HONE_UNROLL for (int i = 0; i < 4; ++i) lanes.sum[i] = lanes.dot[i] = _mm256_setzero_ps();
  std::int64_t at = 0;
  for (; at + kStep <= n; at += kStep) {
    exp_step(x + at, bases, scales, factors, wide == nullptr ? wide : wide + at,
             narrow == nullptr ? narrow : narrow + at, lanes);
  }
  if (at < n) {  // the rest among logits of -inf, which add nothing
    float padded[kStep], wide_out[kStep];
    std::uint16_t narrow_out[kStep];
    for (std::int64_t i = 0; i < kStep; ++i) padded[i] = at + i < n ? x[at + i] : kNone;
    exp_step(padded, bases, scales, factors, wide_out, narrow_out, lanes);
    for (std::int64_t i = 0; at + i < n; ++i) {
      if (wide != nullptr) wide[at + i] = wide_out[i];
      if (narrow != nullptr) narrow[at + i] = narrow_out[i];
    }
  }
  return {.sum = total(lanes.sum), .dot = total(lanes.dot)};
}

HONE_AVX2 void scale_avx2(float* x, std::int64_t n, float factor) {
  const __m256 factors = _mm256_set1_ps(factor);
  std::int64_t at = 0;
  for (; at + kLanes <= n; at += kLanes) {
    _mm256_storeu_ps(x + at, _mm256_mul_ps(_mm256_loadu_ps(x + at), factors));
  }
  for (; at < n; ++at) x[at] *= factor;
}

const LogprobKernels* logprob_kernels_avx2() {
  static constexpr LogprobKernels kKernels = {.peak = peak_avx2, .exp = exp_avx2, .scale = scale_avx2};
  return &kKernels;
}

}  // namespace hone::ops::kernels

#endif
