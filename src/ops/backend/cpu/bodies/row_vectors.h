// Vectors of rows for every instruction set's form of row_kernels.h and delta_rule_kernels.h. Included once by each of
// their files, after it has set HONE_NATIVE_LANES to the fp32 lanes of its widest register. Everything is in an anonymous
// namespace, and no template of the standard library is used: the linker could keep the copy that was compiled with wide
// instructions.
#pragma once

#include "ops/backend/cpu/row_kernels.h"

namespace hone::ops {
namespace {

constexpr std::int64_t kNative = HONE_NATIVE_LANES;
constexpr std::int64_t kLanes = 32;  // of a sum
constexpr std::int64_t kParts = kLanes / kNative;

using Float = float __attribute__((vector_size(kNative * 4)));
using Word = std::uint32_t __attribute__((vector_size(kNative * 4)));
using Half = std::uint16_t __attribute__((vector_size(kNative * 2)));

struct Bf16 {
  std::uint16_t bits;
};

Word bits_of(Float v) {
  return reinterpret_cast<Word>(v);
}

Float float_of(Word v) {
  return reinterpret_cast<Float>(v);
}

Float widen(Half half) {
  return float_of(__builtin_convertvector(half, Word) << 16);
}

Word rounded_bits(Float v) {  // in the upper half; the lower half is unspecified
  const Word u = bits_of(v);
  const Word nearest_even = u + 0x7fffU + ((u >> 16) & 1U);
  return (u & 0x7fffffffU) > 0x7f800000U ? (u | 0x400000U) : nearest_even;  // NaN stays NaN
}

// A whole vector, or the rest of the row.
struct Whole {};
struct Rest {
  std::int64_t count;
};

Float load(const float* p, Whole /*all*/) {
  Float v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
Float load(const Bf16* p, Whole /*all*/) {
  Half v;
  __builtin_memcpy(&v, p, sizeof v);
  return widen(v);
}
template <class T>
Float load(const T* p, Rest rest) {
  T padded[kNative] = {};
  for (std::int64_t i = 0; i < rest.count; ++i) padded[i] = p[i];
  return load(padded, Whole{});
}

void store(float* p, Float v, Whole /*all*/) {
  __builtin_memcpy(p, &v, sizeof v);
}
void store(Bf16* p, Float v, Whole /*all*/) {
  const Half half = __builtin_convertvector(rounded_bits(v) >> 16, Half);
  __builtin_memcpy(p, &half, sizeof half);
}
template <class T>
void store(T* p, Float v, Rest rest) {
  T padded[kNative];
  store(padded, v, Whole{});
  for (std::int64_t i = 0; i < rest.count; ++i) p[i] = padded[i];
}

// The value of v after storing it as a T and loading it again.
template <class T>
Float as(Float v) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return v;
  } else {
    return float_of(rounded_bits(v) & 0xffff0000U);
  }
}

template <class T>
const T* row_of(const RowsIn& rows, std::int64_t t) {
  return static_cast<const T*>(rows.data) + t * rows.stride;
}
template <class T>
T* row_of(const RowsOut& rows, std::int64_t t) {
  return static_cast<T*>(rows.data) + t * rows.stride;
}

template <class Step>
void over(std::int64_t width, Step step) {
  std::int64_t i = 0;
  for (; i + kNative <= width; i += kNative) step(i, Whole{});
  if (i < width) step(i, Rest{width - i});
}

float folded(const Float (&part)[kParts]) {
  Float half[kParts];
  for (std::int64_t p = 0; p < kParts; ++p) half[p] = part[p];
#pragma GCC unroll 8
  for (std::int64_t n = kParts / 2; n >= 1; n /= 2) {
#pragma GCC unroll 8
    for (std::int64_t p = 0; p < n; ++p) half[p] = half[p] + half[p + n];
  }
  float lane[kNative];
  __builtin_memcpy(lane, &half[0], sizeof lane);
#pragma GCC unroll 8
  for (std::int64_t n = kNative / 2; n >= 1; n /= 2) {
#pragma GCC unroll 8
    for (std::int64_t p = 0; p < n; ++p) lane[p] = lane[p] + lane[p + n];
  }
  return lane[0];
}

// Sums over a row of a and b as set by term(i, mode, a, b).
struct Sums {
  float a, b;
};
template <class Term>
Sums sums_over(std::int64_t width, Term term) {
  Float a[kParts] = {}, b[kParts] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
#pragma GCC unroll 8
    for (std::int64_t p = 0; p < kParts; ++p) {
      Float more_a = {}, more_b = {};
      term(i + p * kNative, Whole{}, more_a, more_b);
      a[p] += more_a;
      b[p] += more_b;
    }
  }
#pragma GCC unroll 8
  for (std::int64_t p = 0; p < kParts; ++p) {
    const std::int64_t at = i + p * kNative;
    Float more_a = {}, more_b = {};
    if (at + kNative <= width) {
      term(at, Whole{}, more_a, more_b);
    } else if (at < width) {
      term(at, Rest{width - at}, more_a, more_b);
    }
    a[p] += more_a;
    b[p] += more_b;
  }
  return {folded(a), folded(b)};
}

float inverse_rms(float sum_of_squares, std::int64_t width, float eps) {
  return 1.0F / __builtin_sqrtf(sum_of_squares / static_cast<float>(width) + eps);
}

// exp(z) for z <= 0, relative error below 2e-7; 0 below -87.7; NaN stays NaN. z = n ln 2 + r with |r| <= ln 2
// / 2, and exp(r) = 1 + r + r^2 q(r) with q the interpolation of its series at Chebyshev's points (error
// 1e-8).
Float exp_of_negative(Float z) {
  // 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
  constexpr float kRound = 12582912.0F;
  const Float floor = Float{} - 88.0F;
  z = z < floor ? floor : z;
  const Float shifted = z * 1.44269504F + kRound;
  const Float n = shifted - kRound;
  // ln 2 in two parts; the first product is exact
  const Float r = z - n * 0.693145751953125F - n * 1.42860682e-6F;
  Float q = r * 0.0013926213F + 0.008363203F;
  q = q * r + 0.041666554F;
  q = q * r + 0.16666577F;
  q = q * r + 0.5F;
  const Float mantissa = q * (r * r) + r + 1.0F;
  return mantissa * float_of((bits_of(shifted) + 127U) << 23);  // n = -127 gives 0
}

Float magnitude(Float v) {
  return float_of(bits_of(v) & 0x7fffffffU);
}

// g sigmoid(z), where z has g's sign, through exp(-|z|), which cannot overflow. silu: z = g.
Float gated(Float g, Float z) {
  const Float e = exp_of_negative(-magnitude(z));
  return (g >= 0.0F ? g : g * e) / (1.0F + e);
}

}  // namespace
}  // namespace hone::ops
