// Panels of quantized_kernels.h with AVX-512. Compiled for avx512 f, bw, dq and vl as a whole (cmake/Folders.cmake): nothing
// of std here, whose inline copies would carry these instructions into the rest of the program.
#include "ops/backend/cpu/quantized_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "ops/backend/cpu/bodies/quantized_vectors_avx512.h"

namespace hone::ops::kernels {
namespace {

[[gnu::always_inline]] inline Ints rounded(Ints bits) {
  const Ints odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
}
[[gnu::always_inline]] inline Ints pack_pair(Floats x0, Floats x1) {
  const Ints first = _mm512_srli_epi32(rounded(_mm512_castps_si512(x0)), 16);
  const Ints mask = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  return _mm512_or_si512(first, _mm512_and_si512(rounded(_mm512_castps_si512(x1)), mask));
}

}  // namespace
}  // namespace hone::ops::kernels

#include "ops/backend/cpu/bodies/quantized_panels_body.h"

namespace hone::ops::kernels {

void unpack_panel_avx512(const PanelView& matrix, const Unpack& run) {
  for_kind<UnpackKind>(matrix, matrix, run);
}

void multiply_codes_avx512(const CodedRun& run) {
  for_kind<MultiplyKind>(*run.matrix, run);
}

void multiply_codes_amx(const CodedRun& run) {
  for_kind<MultiplyGroups>(*run.matrix, run);
}

}  // namespace hone::ops::kernels

#else

namespace hone::ops::kernels {

void unpack_panel_avx512(const PanelView&, const Unpack&) {}
void multiply_codes_avx512(const CodedRun&) {}
void multiply_codes_amx(const CodedRun&) {}

}  // namespace hone::ops::kernels

#endif
