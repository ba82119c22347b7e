// Panels of quantized_kernels.h with AVX2. Compiled for avx2, fma and f16c as a whole (cmake/Folders.cmake): nothing of std
// here, whose inline copies would carry these instructions into the rest of the program.
#include "ops/backend/cpu/quantized_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace hone::ops::kernels {
namespace {

using Floats = __m256;
using Ints = __m256i;
constexpr std::int64_t kLanes = 8;

struct Table {
  __m256 lower, upper;
  __m256 least;  // the first: of 5 and 6 bits, where the others follow in order
};
[[gnu::always_inline]] inline Table table_of(const float* p) {
  if (p == nullptr) return {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), _mm256_broadcast_ss(p)};
}
// Only the lowest 3 bits of an index count; the fourth chooses the half of the table.
template <int Shift>
[[gnu::always_inline]] inline Floats lookup(const Table& table, Ints words) {
  const Ints index = _mm256_srli_epi32(words, Shift);
  const Floats fourth = _mm256_castsi256_ps(_mm256_slli_epi32(words, 28 - Shift));
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.lower, index),
                          _mm256_permutevar8x32_ps(table.upper, index), fourth);
}

[[gnu::always_inline]] inline Floats zero() {
  return _mm256_setzero_ps();
}
[[gnu::always_inline]] inline Floats load(const float* p) {
  return _mm256_loadu_ps(p);
}
[[gnu::always_inline]] inline Ints load_words(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
[[gnu::always_inline]] inline void store(float* p, Floats x) {
  _mm256_storeu_ps(p, x);
}
[[gnu::always_inline]] inline void store_words(Word* p, Ints x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
}
[[gnu::always_inline]] inline Floats broadcast(const float* p) {
  return _mm256_broadcast_ss(p);
}
[[gnu::always_inline]] inline Floats plus(Floats a, Floats b) {
  return _mm256_add_ps(a, b);
}
[[gnu::always_inline]] inline Floats times(Floats a, Floats b) {
  return _mm256_mul_ps(a, b);
}
[[gnu::always_inline]] inline Floats minus(Floats a, Floats b) {
  return _mm256_sub_ps(a, b);
}
[[gnu::always_inline]] inline Floats multiply_add(Floats a, Floats b, Floats c) {
  return _mm256_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Floats multiply_less(Floats a, Floats b, Floats c) {
  return _mm256_fnmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline void prefetch(const void* p) {
  _mm_prefetch(p, _MM_HINT_T1);
}
[[gnu::always_inline]] inline Floats from_int8(const std::uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
[[gnu::always_inline]] inline Floats from_uint8(const std::uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
[[gnu::always_inline]] inline Floats from_halves(const std::uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
[[gnu::always_inline]] inline Ints shifted_right(Ints words, int n) {
  return _mm256_srl_epi32(words, _mm_cvtsi32_si128(n));
}
// Code `J` of 8: 4 bits of `low`, the others of `high`.
template <int Bits, int J>
[[gnu::always_inline]] inline Floats code_of(const Table& table, Ints low, Ints high) {
  constexpr int kUpper = Bits - 4, kMask = (1 << kUpper) - 1;
  const Ints lower = _mm256_and_si256(_mm256_srli_epi32(low, 4 * J), _mm256_set1_epi32(15));
  const Ints upper = _mm256_and_si256(_mm256_srli_epi32(high, kUpper * J), _mm256_set1_epi32(kMask));
  const Ints code = _mm256_or_si256(lower, _mm256_slli_epi32(upper, 4));
  return _mm256_add_ps(_mm256_cvtepi32_ps(code), table.least);
}
[[gnu::always_inline]] inline Floats power_of(Floats x) {
  return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xFF800000U))));
}
[[gnu::always_inline]] inline Ints rounded(Ints bits) {
  const Ints odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
}
[[gnu::always_inline]] inline Ints pack_pair(Floats x0, Floats x1) {
  const Ints first = _mm256_srli_epi32(rounded(_mm256_castps_si256(x0)), 16);
  return _mm256_blend_epi16(first, rounded(_mm256_castps_si256(x1)), 0xAA);
}

}  // namespace
}  // namespace hone::ops::kernels

#include "ops/backend/cpu/bodies/quantized_panels_body.h"

namespace hone::ops::kernels {

void unpack_panel_avx2(const PanelView& matrix, const Unpack& run) {
  for_kind<UnpackKind>(matrix, matrix, run);
}

void multiply_codes_avx2(const CodedRun& run) {
  for_kind<MultiplyKind>(*run.matrix, run);
}

}  // namespace hone::ops::kernels

#else

namespace hone::ops::kernels {

void unpack_panel_avx2(const PanelView&, const Unpack&) {}
void multiply_codes_avx2(const CodedRun&) {}

}  // namespace hone::ops::kernels

#endif
