// Few rows straight from codes, with the sums of the amx form (gemm.h): AVX-512 repeats tdpbf16ps, so that codes need
// not be unpacked first. Compiled for avx512 f, bw, dq, vl and bf16 as a whole (cmake/Folders.cmake): nothing of std here,
// whose inline copies would carry these instructions into the rest of the program.
#include "ops/backend/cpu/quantized_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>

#include "ops/backend/cpu/bodies/avx512_masks.h"
#include "ops/backend/cpu/bodies/gemm_finish_bf16.h"

namespace hone::ops::kernels {
namespace {

using std::int64_t;

int64_t padded(int64_t k) {
  return (k + kTileDepth - 1) / kTileDepth * kTileDepth;
}

// One row as float32, with zeros up to a whole group.
void widen_row(const Bf16* from, int64_t k, float* to) {
  for (int64_t i = 0; i < padded(k); i += 16) {
    const __mmask16 mask = first_floats(k - i);
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + i));
    _mm512_storeu_ps(to + i, _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)));
  }
}

// A panel of bf16, 16 of its columns: `pairs` of k.
template <int Rows>
[[gnu::noinline]] void multiply_groups(const Word* panel, int64_t pairs, const CodedRun& run) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  __m512 sum[Rows];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    sum[r] = run.from == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(run.from + r * run.from_stride);
  }
  for (int64_t begin = 0; begin < pairs; begin += kTileDepth / 2) {
    __m512 even[Rows], odd[Rows];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) even[r] = odd[r] = _mm512_setzero_ps();
    for (int64_t pair = begin; pair < smaller(pairs, begin + kTileDepth / 2); ++pair) {
      const __m512i words = _mm512_loadu_si512(panel + pair * kPanelWide);
      const __m512 lower = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
      const __m512 upper = _mm512_castsi512_ps(_mm512_and_si512(words, mask));
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
        const float* const a = static_cast<const float*>(run.a) + r * run.a_stride + 2 * pair;
        even[r] = _mm512_fmadd_ps(_mm512_set1_ps(a[0]), lower, even[r]);
        odd[r] = _mm512_fmadd_ps(_mm512_set1_ps(a[1]), upper, odd[r]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) sum[r] = _mm512_add_ps(sum[r], _mm512_add_ps(even[r], odd[r]));
  }
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) _mm512_storeu_ps(run.to + r * run.to_stride, sum[r]);
}

using Groups = void (*)(const Word*, int64_t, const CodedRun&);
constexpr Groups kGroups[kAmxCodedRows + 1] = {nullptr, multiply_groups<1>, multiply_groups<2>,
                                               multiply_groups<3>, multiply_groups<4>};

// Columns column .. column + width of one slice; run has its rows and sums.
void multiply_slice(const Slice& slice, int64_t column, int64_t width, CodedRun run) {
  if (slice.codes != nullptr) {
    run.matrix = slice.codes;
    run.panel = slice.first_panel + column / kPanelWide;
    run.begin = slice.begin;
    run.k = slice.k;
    multiply_codes_amx(run);
    return;
  }
  const Word* const panel = slice.panels + column / kPanelWide * slice.panel_stride;
  for (int64_t half = 0; half < width; half += 16) {
    CodedRun part = run;
    if (part.from != nullptr) part.from += half;
    part.to += half;
    kGroups[run.rows](panel + half, words_of(slice.k, false), part);
  }
}

}  // namespace

int64_t coded_scratch_bytes_amx(const Block& b) {
  int64_t numbers = 0;
  for (int s = 0; s < b.count; ++s) numbers += padded(b.slices[s].k);
  return numbers * b.rows * 4;
}

void multiply_coded_block_amx(const Block& b) {
  alignas(64) float tile[kAmxCodedRows * kPanelWide];
  auto* const scratch = static_cast<float*>(b.row_scratch);
  float* rows = scratch;
  for (int s = 0; s < b.count; ++s) {
    const Slice& slice = b.slices[s];
    for (int64_t r = 0; r < b.rows; ++r, rows += padded(slice.k))
      widen_row(static_cast<const Bf16*>(slice.a) + r * slice.a_stride, slice.k, rows);
  }
  for (int64_t column = 0; column < b.columns; column += kPanelWide) {
    const int64_t width = smaller(b.columns - column, kPanelWide);
    CodedRun run{.rows = b.rows};
    run.to = b.finish != nullptr ? tile : b.sums + column;
    run.to_stride = b.finish != nullptr ? kPanelWide : b.sums_stride;
    run.from = b.first ? nullptr : b.sums + column;
    run.from_stride = b.sums_stride;
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | kFlushToZero);
    rows = scratch;
    for (int s = 0; s < b.count; ++s) {
      run.a = rows;
      run.a_stride = padded(b.slices[s].k);
      multiply_slice(b.slices[s], column, width, run);
      rows += b.rows * run.a_stride;
      run.from = run.to;
      run.from_stride = run.to_stride;
    }
    _mm_setcsr(before);
    if (b.finish != nullptr) finish_tile(tile, kPanelWide, 0, b.rows, column, width, *b.finish);
  }
}

}  // namespace hone::ops::kernels

#else

namespace hone::ops::kernels {

std::int64_t coded_scratch_bytes_amx(const Block&) {
  return 0;
}
void multiply_coded_block_amx(const Block&) {}

}  // namespace hone::ops::kernels

#endif
