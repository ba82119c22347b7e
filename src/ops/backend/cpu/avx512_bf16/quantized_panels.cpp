// Unpacking with the conversion of avx512_bf16, and few rows straight from codes with its products. Compiled for avx512
// f, bw, dq, vl and bf16 as a whole (cmake/Folders.cmake): nothing of std here, whose inline copies would carry these
// instructions into the rest of the program.
#include "ops/backend/cpu/quantized_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "ops/backend/cpu/bodies/bf16_pairs.h"
#include "ops/backend/cpu/bodies/quantized_vectors_avx512.h"

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

#include "ops/backend/cpu/bodies/quantized_panels_body.h"

namespace hone::ops::kernels {
namespace {

template <int Bits, bool HasMinimum, int Rows>
void multiply_pairs(const CodedRun& run) {
  constexpr int64_t kVectors = Rows > 4 ? 1 : 2;  // of sums a row: more leave no registers for the numbers
  const PanelView& m = *run.matrix;
  const Table table = table_of(m.table);
  using Sums = Floats[Rows][kVectors];
  sum_codes<Bits, Rows, kVectors>(run, [&](Sums& sum, int64_t first, const float* scale, const float* minimum,
                                           int64_t at) __attribute__((always_inline)) {
    const Bf16* const a = static_cast<const Bf16*>(run.a) + (at - run.begin);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Floats x[8];
      scaled_values_at<Bits, HasMinimum>(m, table, run.panel * m.in + at, first + v * kLanes, scale, minimum,
                                         x);
#pragma GCC unroll 4
      for (int j = 0; j < 8; j += 2) {
        const auto w = reinterpret_cast<__m512bh>(pack_pair(x[j], x[j + 1]));
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r)
          sum[r][v] = _mm512_dpbf16_ps(sum[r][v], broadcast_pair(a + r * run.a_stride + j), w);
      }
    }
  });
}

template <int Bits, bool HasMinimum>
struct MultiplyPairs {
  static constexpr void (*kOfRows[])(const CodedRun&) = {
      nullptr,
      multiply_pairs<Bits, HasMinimum, 1>,
      multiply_pairs<Bits, HasMinimum, 2>,
      multiply_pairs<Bits, HasMinimum, 3>,
      multiply_pairs<Bits, HasMinimum, 4>,
      multiply_pairs<Bits, HasMinimum, 5>,
      multiply_pairs<Bits, HasMinimum, 6>,
      multiply_pairs<Bits, HasMinimum, 7>,
      multiply_pairs<Bits, HasMinimum, 8>,
  };
  static_assert(sizeof kOfRows / sizeof *kOfRows == kCodedRows + 1);
  static void call(const CodedRun& run) { kOfRows[run.rows](run); }
};

}  // namespace

void multiply_codes_dot(const CodedRun& run) {
  for_kind<MultiplyPairs>(*run.matrix, run);
}

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
void multiply_codes_dot(const CodedRun&) {}

}  // namespace hone::ops::kernels

#endif
