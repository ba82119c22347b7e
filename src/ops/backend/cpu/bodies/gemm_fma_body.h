#pragma once

// The fma form of gemm_kernels.h, for one instruction set. The including file is compiled for it as a whole and has
// declared, in an anonymous namespace:
//
//   Floats               a vector of kLanes floats
//   kLanes, kTileRows, kTileVectors, kFewVectors   a tile: kTileRows x kTileVectors; of at most 3 rows: x kFewVectors
//   kSliceDepth          numbers of k of a slice, at most
//   zero, load, store, broadcast, multiply_add(a, b, c): c += a * b rounded once
//   lower(word*), upper(word*)   kLanes words' first and second bf16
//   load_some(p, i, is_bf16, n), store_some(p, i, is_bf16, n, x)   n <= kLanes numbers of fp32 or bf16 from i on
//   add, times, prefetch (into L1), tile_of (below), multiply_codes (quantized_kernels.h)
//
// An element is one chain of multiply_add in the order of k, whatever the tile: the sums are kept in float32 between
// slices, which changes no bit.
#include <cstddef>
#include <cstdint>

#include "ops/backend/cpu/gemm_kernels.h"
#include "ops/backend/cpu/quantized_kernels.h"

namespace hone::ops::kernels {
namespace {

using std::int64_t;

// Between two rows of row_scratch: a slice and a line, so that rows do not share a few sets of L1.
constexpr int64_t kRowStride = kSliceDepth + kRowGap;
constexpr int64_t kChunk =
    512;  // words of a panel that all tiles of few rows read before the next: 64 KB, for L2

// One product of a tile: rows `a` of float32 (bf16: two numbers a word) times `words` words of a panel.
struct Run {
  const float* a = nullptr;
  const Word* panel = nullptr;
  int64_t words = 0;
  int64_t ahead = 8 * kPanelWide;  // words to fetch into L1 before they are read
  const float* from = nullptr;     // sums so far; null: zero
  int64_t from_stride = 0;
  float* to = nullptr;
  int64_t to_stride = 0;
};

template <int Rows, int Vectors>
[[gnu::always_inline]] inline void add_step(Floats (&sum)[Rows][Vectors], const Floats (&right)[Vectors],
                                            const float* a) {
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    const Floats left = broadcast(a + r * kRowStride);
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) multiply_add(left, right[v], sum[r][v]);
  }
}

template <int Rows, int Vectors, bool IsFloat>
void multiply_tile(const Run& run) {
  Floats sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      sum[r][v] = run.from == nullptr ? zero() : load(run.from + r * run.from_stride + kLanes * v);
    }
  }
  const float* a = run.a;
  const Word* word = run.panel;
  for (int64_t i = 0; i < run.words; ++i, word += kPanelWide) {
    Floats right[Vectors];
    if constexpr (IsFloat) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) right[v] = load(reinterpret_cast<const float*>(word) + kLanes * v);
      add_step(sum, right, a);
      a += 1;
    } else {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) right[v] = lower(word + kLanes * v);
      add_step(sum, right, a);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) right[v] = upper(word + kLanes * v);
      add_step(sum, right, a + 1);
      a += 2;
    }
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; v += 64 / (4 * kLanes)) prefetch(word + run.ahead + kLanes * v);
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) store(run.to + r * run.to_stride + kLanes * v, sum[r][v]);
  }
}

using Tile = void (*)(const Run&);

template <int Vectors, bool IsFloat, int... Rows>
constexpr Tile kTiles[] = {nullptr, multiply_tile<Rows, Vectors, IsFloat>...};

// The tile of `rows` rows; `vectors` is 1, kTileVectors or, of few rows, kFewVectors.
Tile tile_of(int64_t rows, int64_t vectors, bool is_float);

void finish_tile(const float* sums, int64_t stride, int64_t row, int64_t rows, int64_t column,
                 int64_t columns, const Finish& finish) {
  const Floats scale = broadcast(&finish.scale);
  for (int64_t c = 0; c < columns; c += kLanes) {
    const int64_t n = smaller(columns - c, kLanes);
    const Floats bias =
        finish.bias == nullptr ? zero() : load_some(finish.bias, column + c, finish.bias_is_bf16, n);
    for (int64_t r = 0; r < rows; ++r) {
      Floats x = times(load(sums + r * stride + c), scale);
      if (finish.bias != nullptr) x = add(x, bias);
      if (finish.residual != nullptr) {
        const int64_t at = (row + r) * finish.residual_stride + column + c;
        x = add(x, load_some(finish.residual, at, finish.residual_is_bf16, n));
      }
      store_some(finish.out, (row + r) * finish.out_stride + column + c, finish.out_is_bf16, n, x);
    }
  }
}

// One row of a slice as float32: numbers of whole words, zero behind an odd k.
void widen_row(const Slice& slice, int64_t row, bool is_float, float* to) {
  const int64_t at = row * slice.a_stride;
  int64_t i = 0;
  for (; i + kLanes <= slice.k; i += kLanes) store(to + i, load_some(slice.a, at + i, !is_float, kLanes));
  if (i < slice.k) store(to + i, load_some(slice.a, at + i, !is_float, slice.k - i));
}

// Rows [row, row + rows) of all slices: [slice][rows][kRowStride].
void gather_rows(const Block& b, int64_t row, int64_t rows, float* scratch) {
  for (int s = 0; s < b.count; ++s) {
    for (int64_t r = 0; r < rows; ++r, scratch += kRowStride)
      widen_row(b.slices[s], row + r, b.is_float, scratch);
  }
}

// `width` columns of a panel for `rows` gathered rows.
void multiply_columns(const Run& whole, int64_t rows, int64_t width, bool is_float) {
  const int64_t vectors = (width + kLanes - 1) / kLanes;
  int64_t v = 0;
  while (v < vectors) {
    const int64_t left = vectors - v;
    const int64_t n = rows <= 3 && left >= kFewVectors ? kFewVectors
                      : left >= kTileVectors           ? kTileVectors
                                                       : 1;
    Run run = whole;
    run.panel += v * kLanes;
    run.to += v * kLanes;
    if (run.from != nullptr) run.from += v * kLanes;
    tile_of(rows, n, is_float)(run);
    v += n;
  }
}

// Slice `s` of few rows, straight from its codes.
void multiply_coded_slice(const Block& b, int s, int64_t column, const float* rows, float* to,
                          int64_t to_stride) {
  const Slice& slice = b.slices[s];
  const bool carried = !b.first && s == 0;  // from the step before
  multiply_codes({.matrix = slice.codes,
                  .panel = slice.first_panel + column / kPanelWide,
                  .begin = slice.begin,
                  .k = slice.k,
                  .is_float = b.is_float,
                  .rows = b.rows,
                  .a = rows,
                  .a_stride = kRowStride,
                  .from = carried ? b.sums + column
                          : s > 0 ? to
                                  : nullptr,
                  .from_stride = carried ? b.sums_stride : to_stride,
                  .to = to,
                  .to_stride = to_stride});
}

// Few rows: each panel is read once, in order.
void multiply_few(const Block& b) {
  alignas(64) float sums[2 * kTileRows * kPanelWide];
  const int64_t row_blocks = (b.rows + kTileRows - 1) / kTileRows;
  auto* const rows = static_cast<float*>(b.row_scratch);
  gather_rows(b, 0, b.rows, rows);
  for (int64_t column = 0; column < b.columns; column += kPanelWide) {
    const int64_t width = smaller(b.columns - column, kPanelWide);
    bool begun = !b.first;
    float* const to = b.finish != nullptr ? sums : b.sums + column;
    const int64_t to_stride = b.finish != nullptr ? kPanelWide : b.sums_stride;
    for (int s = 0; s < b.count; ++s) {
      const Slice& slice = b.slices[s];
      if (slice.codes != nullptr) {
        multiply_coded_slice(b, s, column, rows + s * b.rows * kRowStride, to, to_stride);
        continue;
      }
      const Word* panel = slice.panels + column / kPanelWide * slice.panel_stride;
      const int64_t words = words_of(slice.k, b.is_float);
      for (int64_t word = 0; word < words || (s == 0 && word == 0); word += kChunk) {
        for (int64_t i = 0; i < row_blocks; ++i) {
          const int64_t row = b.rows * i / row_blocks;
          const int64_t n = b.rows * (i + 1) / row_blocks - row;
          const bool carried = begun && s == 0 && word == 0;  // from the step before
          Run run{.a = rows + (s * b.rows + row) * kRowStride + (b.is_float ? word : 2 * word),
                  .panel = panel + word * kPanelWide,
                  .words = smaller(words - word, kChunk),
                  .ahead = slice.ahead > 0 ? slice.ahead / 4 : 8 * kPanelWide};
          run.to = to + row * to_stride;
          run.to_stride = to_stride;
          run.from = carried ? b.sums + row * b.sums_stride + column : s > 0 || word > 0 ? run.to : nullptr;
          run.from_stride = carried ? b.sums_stride : to_stride;
          multiply_columns(run, n, width, b.is_float);
        }
      }
    }
    if (b.finish != nullptr) finish_tile(sums, kPanelWide, 0, b.rows, column, width, *b.finish);
  }
}

// Many rows: a tile's rows stay in L1, the panels come from L2.
void multiply_many(const Block& b) {
  alignas(64) float tile[kTileRows * kPanelWide];
  const int64_t row_blocks = (b.rows + kTileRows - 1) / kTileRows;  // of nearly equal size
  auto* const rows = static_cast<float*>(b.row_scratch);
  for (int64_t i = 0; i < row_blocks; ++i) {
    const int64_t row = b.rows * i / row_blocks;
    const int64_t n = b.rows * (i + 1) / row_blocks - row;
    gather_rows(b, row, n, rows);
    for (int64_t column = 0; column < b.columns; column += kPanelWide) {
      const int64_t width = smaller(b.columns - column, kPanelWide);
      float* const kept = b.sums + row * b.sums_stride + column;
      for (int s = 0; s < b.count; ++s) {
        const Slice& slice = b.slices[s];
        const bool last = b.finish != nullptr;
        Run run{.a = rows + s * n * kRowStride,
                .panel = slice.panels + column / kPanelWide * slice.panel_stride,
                .words = words_of(slice.k, b.is_float)};
        run.to = last ? tile : kept;
        run.to_stride = last ? kPanelWide : b.sums_stride;
        run.from = s > 0 ? run.to : b.first ? nullptr : kept;
        run.from_stride = s > 0 ? run.to_stride : b.sums_stride;
        multiply_columns(run, n, width, b.is_float);
      }
      if (b.finish != nullptr) finish_tile(tile, kPanelWide, row, n, column, width, *b.finish);
    }
  }
}

void multiply_in_registers(int64_t steps) {
  Floats sum[kSpinChains];
  const float one = 1, less = 0.5F;
  const Floats a = broadcast(&one), b = broadcast(&less);
#pragma GCC unroll 16
  for (int i = 0; i < kSpinChains; ++i) sum[i] = zero();
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < kSpinChains; ++i) multiply_add(a, b, sum[i]);
  }
  float kept[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kSpinChains; ++i) {
    store(kept, sum[i]);
    asm volatile("" : : "m"(kept));
  }
}

void multiply_block(const Block& b) {
  (b.rows <= 2 * kTileRows ? multiply_few : multiply_many)(b);
}

}  // namespace
}  // namespace hone::ops::kernels
