// The same passes with registers twice as wide: an exponential is one long chain of dependent steps, and a
// core keeps only so many steps in flight.
#include "ops/backend/cpu/logprob_kernels.h"

#if defined(__x86_64__)

// g++ 12 reads its own undefined-on-purpose registers as a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#define HONE_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]
#define HONE_INLINE [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl"), gnu::always_inline]]
#define HONE_UNROLL _Pragma("GCC unroll 4")

namespace hone::ops::kernels {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kStep = 4 * kLanes;
constexpr float kNone = -__builtin_inff();

// Which of a step's lanes [0, n) are in vector i.
HONE_INLINE inline __mmask16 lanes_of(std::int64_t n, int i) {
  const std::int64_t left = n - i * kLanes;
  if (left >= kLanes) return 0xFFFF;
  return static_cast<__mmask16>(left <= 0 ? 0U : (1U << left) - 1U);
}

struct Lanes {
  __m512 sum[4], dot[4];
};

struct Affine {
  __m512 base, scale, factor;
};

// One step of exp_avx512, over `n` <= kStep numbers; see exp_of in logprob_kernels.cpp.
HONE_INLINE inline void exp_step(const float* x, std::int64_t n, const Affine& of, float* wide,
                                 std::uint16_t* narrow, Lanes& lanes) {
  const __m512 least = _mm512_set1_ps(-87.3F), whole = _mm512_set1_ps(0x1.8p23F);
  __m512 z[4], e[4];
  HONE_UNROLL for (int i = 0; i < 4; ++i) {
    const __m512 logits = _mm512_mask_loadu_ps(_mm512_set1_ps(kNone), lanes_of(n, i), x + i * kLanes);
    z[i] = _mm512_mul_ps(_mm512_sub_ps(logits, of.base), of.scale);
  }
  HONE_UNROLL for (int i = 0; i < 4; ++i) {
    const __mmask16 alive = _mm512_cmp_ps_mask(z[i], least, _CMP_NLT_UQ);
    z[i] = _mm512_max_ps(least, z[i]);
    const __m512 shifted = _mm512_fmadd_ps(z[i], _mm512_set1_ps(1.44269504F), whole);
    const __m512 power = _mm512_sub_ps(shifted, whole);
    __m512 r = _mm512_fnmadd_ps(power, _mm512_set1_ps(0x1.62e4p-1F), z[i]);
    r = _mm512_fnmadd_ps(power, _mm512_set1_ps(0x1.7f7d1cp-20F), r);
    const __m512 square = _mm512_mul_ps(r, r);
    const __m512 low = _mm512_fmadd_ps(_mm512_set1_ps(0x1.55548ep-3F), r, _mm512_set1_ps(0x1.fffff8p-2F));
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0x1.123c5p-7F), r, _mm512_set1_ps(0x1.555b6p-5F));
    p = _mm512_fmadd_ps(_mm512_set1_ps(0x1.687a02p-10F), square, p);
    p = _mm512_fmadd_ps(p, square, low);
    p = _mm512_fmadd_ps(p, square, r);
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    const __m512 two_to = _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(127 << 23)));
    e[i] = _mm512_maskz_fmadd_ps(alive, p, two_to, two_to);
  }
  HONE_UNROLL for (int i = 0; i < 4; ++i) {
    lanes.sum[i] = _mm512_add_ps(lanes.sum[i], e[i]);
    lanes.dot[i] = _mm512_fmadd_ps(z[i], e[i], lanes.dot[i]);
  }
  if (wide != nullptr) {
    HONE_UNROLL for (int i = 0; i < 4; ++i) {
      _mm512_mask_storeu_ps(wide + i * kLanes, lanes_of(n, i), _mm512_mul_ps(e[i], of.factor));
    }
  }
  if (narrow != nullptr) {
    HONE_UNROLL for (int i = 0; i < 4; ++i) {
      const __m512i bits = _mm512_castps_si512(_mm512_mul_ps(e[i], of.factor));
      const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
      const __m512i up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
      const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, up), 16);
      _mm512_mask_cvtepi32_storeu_epi16(narrow + i * kLanes, lanes_of(n, i), rounded);
    }
  }
}

HONE_INLINE inline double total(const __m512 (&parts)[4]) {
  float lane[kLanes];
  double sum = 0;
  for (const __m512& part : parts) {
    _mm512_storeu_ps(lane, part);
    for (const float value : lane) sum += static_cast<double>(value);
  }
  return sum;
}

}  // namespace

HONE_AVX512 float peak_avx512(const float* x, std::int64_t n) {
  __m512 most[4];
  HONE_UNROLL for (int i = 0; i < 4; ++i) most[i] = _mm512_set1_ps(kNone);
  for (std::int64_t at = 0; at < n; at += kStep) {
    HONE_UNROLL for (int i = 0; i < 4; ++i) {
      const __m512 logits =
          _mm512_mask_loadu_ps(_mm512_set1_ps(kNone), lanes_of(n - at, i), x + at + i * kLanes);
      most[i] = _mm512_max_ps(logits, most[i]);
    }
  }
  return _mm512_reduce_max_ps(
      _mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3])));
}

HONE_AVX512 ExpSums exp_avx512(const float* x, std::int64_t n, float base, float scale, float factor,
                               float* wide, std::uint16_t* narrow) {
  const Affine of = {_mm512_set1_ps(base), _mm512_set1_ps(scale), _mm512_set1_ps(factor)};
  Lanes lanes;
  HONE_UNROLL for (int i = 0; i < 4; ++i) lanes.sum[i] = lanes.dot[i] = _mm512_setzero_ps();
  std::int64_t at = 0;
  for (; at + kStep <= n; at += kStep) {
    exp_step(x + at, kStep, of, wide == nullptr ? wide : wide + at, narrow == nullptr ? narrow : narrow + at,
             lanes);
  }
  if (at < n) {
    exp_step(x + at, n - at, of, wide == nullptr ? wide : wide + at, narrow == nullptr ? narrow : narrow + at,
             lanes);
  }
  return {.sum = total(lanes.sum), .dot = total(lanes.dot)};
}

const LogprobKernels* logprob_kernels_avx512() {
  static constexpr LogprobKernels kKernels = {.peak = peak_avx512, .exp = exp_avx512, .scale = scale_avx2};
  return &kKernels;
}

}  // namespace hone::ops::kernels

#endif
