// Unpacking with the conversion of avx512_bf16. Compiled for avx512 f, bw, dq, vl and bf16 as a whole (CMakeLists.txt):
// nothing of std here, whose inline copies would carry these instructions into the rest of the program.
#include "ops/cpu/quantized_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "ops/cpu/quantized_vectors_avx512.h"

namespace hone::ops::kernels {
namespace {

// The conversion makes numbers below 2^-126 zero: for tame matrices.
[[gnu::always_inline]] inline Ints pack_pair(Floats x0, Floats x1) {
  const Ints order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,  //
                                      23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, reinterpret_cast<Ints>(_mm512_cvtne2ps_pbh(x1, x0)));
}

}  // namespace
}  // namespace hone::ops::kernels

#include "ops/cpu/quantized_panels_body.h"

namespace hone::ops::kernels {

void unpack_panel_avx512_bf16(const PanelView& matrix, const Unpack& run) {
  if (matrix.is_tame && !run.is_float) {
    for_kind<UnpackKind>(matrix, matrix, run);
  } else {
    unpack_panel_avx512(matrix, run);
  }
}

}  // namespace hone::ops::kernels

#else

namespace hone::ops::kernels {

void unpack_panel_avx512_bf16(const PanelView&, const Unpack&) {}

}  // namespace hone::ops::kernels

#endif
