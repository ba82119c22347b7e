// The form for avx512_bf16. Compiled for avx512 f, bw, dq, vl and bf16 as a whole (cmake/Folders.cmake): nothing of std here, whose inline
// copies would carry these instructions into the rest of the program.
#include "ops/backend/cpu/gemm_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>

#include "ops/backend/cpu/bodies/avx512_masks.h"
#include "ops/backend/cpu/bodies/bf16_pairs.h"
#include "ops/backend/cpu/bodies/gemm_finish_bf16.h"
#include "ops/backend/cpu/quantized_kernels.h"

namespace hone::ops::kernels {
namespace {

using std::int64_t;

// 14 x 2 accumulators, 2 of the panel, 1 of the row: 31 of 32 registers
constexpr int64_t kTileRows = 14;
constexpr int64_t kPairStep = 2 * kPanelWide;  // numbers from one pair of k to the next

// Rows x (16 * Vectors) sums over all slices, in registers.
template <int Rows, int Vectors>
void multiply_tile(const Slice* slices, int count, int64_t row, int64_t panel, const float* from,
                   int64_t from_stride, float* to, int64_t to_stride) {
  __m512 sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      sum[r][v] = from == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(from + r * from_stride + 16 * v);
    }
  }
  for (int s = 0; s < count; ++s) {
    const int64_t stride = slices[s].a_stride;
    const Bf16* a = static_cast<const Bf16*>(slices[s].a) + row * stride;
    const auto* b = reinterpret_cast<const Bf16*>(slices[s].panels + panel * slices[s].panel_stride);
    const int64_t pairs = slices[s].k / 2;
    const char* const fetched = reinterpret_cast<const char*>(b) + slices[s].ahead;
    for (int64_t pair = 0; pair < pairs; ++pair) {
      __m512bh right[Vectors];
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) {
        _mm_prefetch(fetched + 2 * (pair * kPairStep + 32 * v), _MM_HINT_T1);
        right[v] = load_pairs(b + pair * kPairStep + 32 * v);
      }
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const __m512bh left = broadcast_pair(a + r * stride + 2 * pair);
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, right[v]);
      }
    }
    if (slices[s].k % 2 != 0) {  // the last number is paired with zero, on both sides
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const int last = a[r * stride + 2 * pairs];
        const __m512bh left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(last));
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) {
          sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, load_pairs(b + pairs * kPairStep + 32 * v));
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) _mm512_storeu_ps(to + r * to_stride + 16 * v, sum[r][v]);
  }
}

using Tile = void (*)(const Slice*, int, int64_t, int64_t, const float*, int64_t, float*, int64_t);

template <int Vectors>
constexpr Tile kTiles[kTileRows + 1] = {
    nullptr,
    multiply_tile<1, Vectors>,
    multiply_tile<2, Vectors>,
    multiply_tile<3, Vectors>,
    multiply_tile<4, Vectors>,
    multiply_tile<5, Vectors>,
    multiply_tile<6, Vectors>,
    multiply_tile<7, Vectors>,
    multiply_tile<8, Vectors>,
    multiply_tile<9, Vectors>,
    multiply_tile<10, Vectors>,
    multiply_tile<11, Vectors>,
    multiply_tile<12, Vectors>,
    multiply_tile<13, Vectors>,
    multiply_tile<14, Vectors>,
};

// As multiply_tile of two vectors, where slices of codes are among the others: one slice after another.
void multiply_coded_tile(const Block& b, int64_t panel, const float* from, float* to, int64_t to_stride) {
  int64_t from_stride = b.sums_stride;
  for (int s = 0; s < b.count; ++s) {
    const Slice& slice = b.slices[s];
    if (slice.codes == nullptr) {
      kTiles<2>[b.rows](&slice, 1, 0, panel, from, from_stride, to, to_stride);
    } else {
      multiply_codes_dot({.matrix = slice.codes,
                          .panel = slice.first_panel + panel,
                          .begin = slice.begin,
                          .k = slice.k,
                          .rows = b.rows,
                          .a = slice.a,
                          .a_stride = slice.a_stride,
                          .from = from,
                          .from_stride = from_stride,
                          .to = to,
                          .to_stride = to_stride});
    }
    from = to;
    from_stride = to_stride;
  }
}

void copy_row(const Bf16* from, int64_t n, Bf16* to) {
  for (int64_t i = 0; i < n; i += 32) {
    const __mmask32 mask = first_words(n - i);
    _mm512_mask_storeu_epi16(to + i, mask, _mm512_maskz_loadu_epi16(mask, from + i));
  }
}

// The rows of one tile, close together.
void gather_rows(const Slice* slices, int count, int64_t row, int64_t rows, Bf16* scratch, Slice* moved) {
  for (int s = 0; s < count; ++s) {
    const Slice& slice = slices[s];
    const int64_t stride = (slice.k + 31) / 32 * 32 + 32;
    const Bf16* from = static_cast<const Bf16*>(slice.a) + row * slice.a_stride;
    for (int64_t r = 0; r < rows; ++r) copy_row(from + r * slice.a_stride, slice.k, scratch + r * stride);
    moved[s] = slice;
    moved[s].a = scratch;
    moved[s].a_stride = stride;
    scratch += rows * stride;
  }
}

void multiply_in_registers(int64_t steps) {
  __m512 sum[kSpinChains];
  const __m512bh a = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3F80));
#pragma GCC unroll 16
  for (__m512& chain : sum) chain = _mm512_setzero_ps();
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (__m512& chain : sum) {
      chain = _mm512_dpbf16_ps(chain, a, a);
      asm("" : "+v"(chain));
    }
  }
#pragma GCC unroll 16
  for (const __m512& chain : sum) asm volatile("" : : "v"(chain));
}

void multiply_block(const Block& b) {
  alignas(64) float tile[kTileRows * 32];
  const int64_t row_blocks = (b.rows + kTileRows - 1) / kTileRows;  // of nearly equal size
  const int64_t panels = (b.columns + 31) / 32;
  // A few rows: the panel comes from memory once. Many: the rows stay in L1, the panels come from L2.
  const bool panel_outside = b.rows <= 2 * kTileRows;
  auto* const row_scratch = static_cast<Bf16*>(b.row_scratch);
  const bool coded = has_codes(b);  // of at most kCodedRows rows
  static_assert(kCodedRows <= kTileRows);
  Slice moved[kMaxSlices];
  for (int64_t i = 0; i < row_blocks * panels; ++i) {
    const int64_t panel = panel_outside ? i / row_blocks : i % panels;
    const int64_t block = panel_outside ? i % row_blocks : i / panels;
    const int64_t row = b.rows * block / row_blocks;
    const int64_t n = b.rows * (block + 1) / row_blocks - row;
    const int64_t column = panel * 32;
    const int64_t width = smaller(b.columns - column, 32);
    float* at = b.sums + row * b.sums_stride + column;
    const Tile multiply = width <= 16 ? kTiles<1>[n] : kTiles<2>[n];
    const float* const from = b.first ? nullptr : at;
    const bool to_tile = b.finish != nullptr;
    float* const to = to_tile ? tile : at;
    const int64_t to_stride = to_tile ? 32 : b.sums_stride;
    if (coded) {
      multiply_coded_tile(b, panel, from, to, to_stride);
    } else {
      if (row_scratch != nullptr && panel == 0) gather_rows(b.slices, b.count, row, n, row_scratch, moved);
      multiply(row_scratch != nullptr ? moved : b.slices, b.count, row_scratch != nullptr ? 0 : row, panel,
               from, b.sums_stride, to, to_stride);
    }
    if (to_tile) finish_tile(tile, 32, row, n, column, width, *b.finish);
  }
}

}  // namespace

const GemmKernels* gemm_kernels_dot() {
  static constexpr GemmKernels kKernels = {.name = "avx512_bf16",
                                           .form = GemmForm::kDot,
                                           .tile_rows = kTileRows,
                                           .depth = 1024,  // 14 rows of it stay in L1
                                           .step_depth = 1024,
                                           .flops = 200e9,
                                           .multiply_block = multiply_block,
                                           .multiply_in_registers = multiply_in_registers,
                                           .spin_flop = 64,
                                           .pack_rows = pack_rows_avx512,
                                           .pack_columns = pack_columns_avx512,
                                           .repack = repack_avx512,
                                           .transpose = transpose_avx512};
  return &kKernels;
}

}  // namespace hone::ops::kernels

#else

namespace hone::ops::kernels {

const GemmKernels* gemm_kernels_dot() {
  return nullptr;
}

}  // namespace hone::ops::kernels

#endif
