// The form for amx. Compiled for avx512 f, bw, dq, vl and bf16 as a whole (cmake/Folders.cmake): nothing of std here, whose
// inline copies would carry these instructions into the rest of the program.
//
// A group is kTileDepth numbers of k of one tdpbf16ps; groups begin where a term or a slice does, and the last is
// filled up with zeros. A block of the result is 2 x 2 tiles of 16 x 16 sums. Its rows are read where they lie and stay
// in L1 over kChunk numbers of k, while panels pass it by from L2: 2,880 GFLOP/s of a core, of 3,670 in registers. With
// 896 numbers instead of 512 they do not fit: 1,810. What has to come from farther away, or to go there, is spread over
// the groups (class Meanwhile): a whole tile at once would stop the products.
#include "ops/backend/cpu/gemm_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>

#include "ops/backend/cpu/bodies/avx512_masks.h"
#include "ops/backend/cpu/bodies/gemm_finish_bf16.h"
#include "ops/backend/cpu/bodies/tile_registers.h"

namespace hone::ops::kernels {
namespace {

using std::int64_t;

constexpr int64_t kHigh = 16;                                 // rows of a tile
constexpr int64_t kBlockRows = 2 * kHigh;                     // of the result at once
constexpr int64_t kLine = 64;                                 // bytes of a tile's row
constexpr int64_t kPairBytes = 4 * kPanelWide;                // of a panel, of one pair of k
constexpr int64_t kGroupBytes = kTileDepth / 2 * kPairBytes;  // of a panel, of one group
constexpr int64_t kChunk = 512;                               // numbers of k: 32 rows are 32 KB
constexpr int64_t kTailNumbers = kBlockRows * kTileDepth;     // of row_scratch, of one slice

// Tiles 0 to 3 are sums (0 and 1 of the upper rows), 4 and 5 rows, 6 and 7 columns of the panel.
TileShapes shapes_of(int64_t rows) {
  const int64_t upper = smaller(rows, kHigh), lower = rows - upper;
  TileShapes shapes;
  constexpr int kUpper[] = {0, 1, 4}, kLower[] = {2, 3, 5}, kOfPanel[] = {6, 7};
  for (const int tile : kUpper) shapes.set(tile, upper, kLine);
  for (const int tile : kLower) shapes.set(tile, lower, kLine);
  for (const int tile : kOfPanel) shapes.set(tile, kHigh, kLine);
  return shapes;
}

template <int RowTiles, int ColumnTiles>
[[gnu::always_inline]] inline void load_sums(const float* from, int64_t stride) {
  load_tile<0>(from, 4 * stride);
  if constexpr (ColumnTiles == 2) load_tile<1>(from + 16, 4 * stride);
  if constexpr (RowTiles == 2) {
    load_tile<2>(from + kHigh * stride, 4 * stride);
    if constexpr (ColumnTiles == 2) load_tile<3>(from + kHigh * stride + 16, 4 * stride);
  }
}

template <int RowTiles, int ColumnTiles>
[[gnu::always_inline]] inline void store_sums(float* to, int64_t stride) {
  store_tile<0>(to, 4 * stride);
  if constexpr (ColumnTiles == 2) store_tile<1>(to + 16, 4 * stride);
  if constexpr (RowTiles == 2) {
    store_tile<2>(to + kHigh * stride, 4 * stride);
    if constexpr (ColumnTiles == 2) store_tile<3>(to + kHigh * stride + 16, 4 * stride);
  }
}

// One group: rows at `a`, `stride` bytes apart.
template <int RowTiles, int ColumnTiles>
[[gnu::always_inline]] inline void add_group(const char* a, int64_t stride, const char* panel) {
  load_tile<4>(a, stride);
  load_passing_tile<6>(panel, kPairBytes);
  add_tile_product<0, 4, 6>();
  if constexpr (ColumnTiles == 2) {
    load_passing_tile<7>(panel + kLine, kPairBytes);
    add_tile_product<1, 4, 7>();
  }
  if constexpr (RowTiles == 2) {
    load_tile<5>(a + kHigh * stride, stride);
    add_tile_product<2, 5, 6>();
    if constexpr (ColumnTiles == 2) add_tile_product<3, 5, 7>();
  }
}

// The last group of a panel that ends at `k` numbers, k < kTileDepth, with zeros behind them.
void copy_tail(const char* panel, int64_t k, Word* to) {
  const int64_t words = words_of(k, false) * kPanelWide;
  const auto* const from = reinterpret_cast<const Word*>(panel);
  for (int64_t i = 0; i < kTileDepth / 2 * kPanelWide; i += 16) {
    _mm512_store_si512(to + i, i < words ? _mm512_loadu_si512(from + i) : _mm512_setzero_si512());
  }
}

struct Sums {
  const float* from = nullptr;  // null: zero
  float* to = nullptr;
  int64_t from_stride = 0, to_stride = 0;
  const float* next = nullptr;  // those that the next panel begins with, if they are to be fetched
};

// Slices [first, last) of a block.
struct Chunk {
  int first = 0, last = 0;
};

Chunk chunk_from(const Block& b, int first) {
  Chunk chunk{first, first + 1};
  for (int64_t k = b.slices[first].k; chunk.last < b.count; ++chunk.last) {
    k += b.slices[chunk.last].k;
    if (k > kChunk) break;
  }
  return chunk;
}

// Rounded up; b is 0 where a product has no numbers of k.
int64_t shared(int64_t a, int64_t b) {
  return b > 0 ? (a + b - 1) / b : a;
}

int64_t groups_of(const Block& b, Chunk chunk) {
  int64_t groups = 0;
  for (int s = chunk.first; s < chunk.last; ++s) groups += (b.slices[s].k + kTileDepth - 1) / kTileDepth;
  return groups;
}

// A part of a block's sums: some rows, and the slices of a chunk.
struct Part {
  Chunk chunk;
  int64_t row = 0, rows = 0;
};

// Work that a panel's groups do by the way: they fetch the rows of the next part into L2, and write the finished sums of the
// panel before.
class Meanwhile {
 public:
  Meanwhile(const Block& b, const Part& next, int64_t groups) : b_(b), next_(next), slice_(next.chunk.first) {
    const int64_t lines = next.rows * groups_of(b, next.chunk);
    lines_ = smaller(kMostLines, shared(lines, groups));
  }

  void finish_later(const float* tile, const Part& part, int64_t column, int64_t width, int64_t groups) {
    tile_ = tile, due_ = part, column_ = column, width_ = width, done_ = 0;
    finished_rows_ = shared(part.rows, groups);
  }
  void finish_all() { finish(due_.rows - done_); }

  [[gnu::noinline]] void do_some() {
    for (int64_t line = 0; line < lines_; ++line) fetch_line();
    if (done_ < due_.rows) finish(smaller(finished_rows_, due_.rows - done_));
  }

 private:
  static constexpr int64_t kMostLines = 8;  // at once

  void fetch_line() {
    if (slice_ == next_.chunk.last) return;
    const Slice& slice = b_.slices[slice_];
    const auto* row = static_cast<const Bf16*>(slice.a) + (next_.row + row_) * slice.a_stride;
    _mm_prefetch(reinterpret_cast<const char*>(row + k_), _MM_HINT_T1);
    if (++row_ < next_.rows) return;
    row_ = 0;
    k_ += kTileDepth;
    if (k_ < slice.k) return;
    k_ = 0;
    ++slice_;
  }

  void finish(int64_t rows) {
    if (rows <= 0) return;
    finish_tile(tile_ + done_ * kPanelWide, kPanelWide, due_.row + done_, rows, column_, width_, *b_.finish);
    done_ += rows;
  }

  const Block& b_;
  Part next_;
  int slice_ = 0;
  int64_t row_ = 0, k_ = 0, lines_ = 0;  // of the next line to fetch; lines of a group
  const float* tile_ = nullptr;
  Part due_;
  int64_t column_ = 0, width_ = 0, done_ = 0, finished_rows_ = 0;
};

// Where sums rest between chunks: those of a panel are row_stride numbers apart, panels panel_stride.
struct Partial {
  float* sums = nullptr;
  int64_t row_stride = 0, panel_stride = 0;
};

// The sums of a block's rows and a panel over a chunk. `tails`: the rows' last groups, of all slices.
template <int RowTiles, int ColumnTiles>
void multiply_tiles(const Block& b, const Part& part, int64_t panel, const Bf16* tails, const Sums& sums,
                    Meanwhile& meanwhile) {
  alignas(64) Word tail[kTileDepth / 2 * kPanelWide];
  if (sums.from != nullptr) {
    load_sums<RowTiles, ColumnTiles>(sums.from, sums.from_stride);
  } else {
    zero_tile<0>();
    if constexpr (ColumnTiles == 2) zero_tile<1>();
    if constexpr (RowTiles == 2) zero_tile<2>();
    if constexpr (RowTiles == 2 && ColumnTiles == 2) zero_tile<3>();
  }
  int64_t next_row = sums.next != nullptr ? 0 : part.rows;
  for (int s = part.chunk.first; s < part.chunk.last; ++s) {
    const Slice& slice = b.slices[s];
    const int64_t stride = 2 * slice.a_stride, groups = slice.k / kTileDepth, left = slice.k % kTileDepth;
    const char* a = static_cast<const char*>(slice.a) + part.row * stride;
    const char* from = reinterpret_cast<const char*>(slice.panels + panel * slice.panel_stride);
    // The first rows fetch panels for all rows: to the slice's end, then in the next panel. `ahead` is a number of whole groups.
    const bool fetches = slice.ahead > 0 && part.row == 0;
    const int64_t to_next = 4 * slice.panel_stride - groups * kGroupBytes;
    for (int64_t group = 0; group < groups; ++group) {
      if (fetches) {
        const bool beyond = (group + 1) * kGroupBytes + slice.ahead > groups * kGroupBytes;
        const char* const ahead = from + slice.ahead + (beyond ? to_next : 0);
        for (int64_t i = 0; i < kGroupBytes; i += kPairBytes) {
          _mm_prefetch(ahead + i, _MM_HINT_T1);
          if constexpr (ColumnTiles == 2) _mm_prefetch(ahead + i + kLine, _MM_HINT_T1);
        }
      }
      for (const int64_t end = smaller(next_row + 2, part.rows); next_row < end; ++next_row) {
        const float* next = sums.next + next_row * sums.from_stride;
        _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(next + 16), _MM_HINT_T0);
      }
      meanwhile.do_some();
      add_group<RowTiles, ColumnTiles>(a, stride, from);
      a += kLine;
      from += kGroupBytes;
    }
    if (left == 0) continue;
    if (!slice.padded) {
      copy_tail(from, left, tail);
      from = reinterpret_cast<const char*>(tail);
    }
    add_group<RowTiles, ColumnTiles>(reinterpret_cast<const char*>(tails + s * kTailNumbers), kLine, from);
  }
  meanwhile.finish_all();  // the tile is that of sums.to
  store_sums<RowTiles, ColumnTiles>(sums.to, sums.to_stride);
}

// The last groups of `rows` rows of each slice that has one, with zeros behind: [slice][kBlockRows][kTileDepth].
void gather_tails(const Block& b, int64_t row, int64_t rows, Bf16* to) {
  for (int s = 0; s < b.count; ++s, to += kTailNumbers) {
    const Slice& slice = b.slices[s];
    const int64_t left = slice.k % kTileDepth;
    if (left == 0) continue;
    const __mmask32 mask = first_words(left);
    const Bf16* from = static_cast<const Bf16*>(slice.a) + row * slice.a_stride + slice.k - left;
    for (int64_t r = 0; r < rows; ++r, from += slice.a_stride) {
      _mm512_store_si512(to + r * kTileDepth, _mm512_maskz_loadu_epi16(mask, from));
    }
  }
}

// One part for all panels. Sums rest in `partial` between chunks. `tile`: of kBlockRows x kPanelWide sums.
void multiply_part(const Block& b, const Part& part, const Bf16* tails, const Partial& partial, float* tile,
                   Meanwhile& meanwhile) {
  const bool begins = part.chunk.first == 0, ends = part.chunk.last == b.count;
  const int64_t groups = groups_of(b, part.chunk);
  for (int64_t column = 0; column < b.columns; column += kPanelWide) {
    const int64_t width = smaller(b.columns - column, kPanelWide), panel = column / kPanelWide;
    float* const kept = partial.sums + panel * partial.panel_stride;
    Sums sums{.from = kept, .to = kept, .from_stride = partial.row_stride, .to_stride = partial.row_stride};
    if (begins) {
      sums.from = b.first ? nullptr : b.sums + part.row * b.sums_stride + column;
      sums.from_stride = b.sums_stride;
      if (!b.first && column + kPanelWide < b.columns) sums.next = sums.from + kPanelWide;
    }
    const bool finishes = ends && b.finish != nullptr;
    if (finishes) sums.to = tile, sums.to_stride = kPanelWide;
    if (part.rows > kHigh) {
      (width > 16 ? multiply_tiles<2, 2> : multiply_tiles<2, 1>)(b, part, panel, tails, sums, meanwhile);
    } else {
      (width > 16 ? multiply_tiles<1, 2> : multiply_tiles<1, 1>)(b, part, panel, tails, sums, meanwhile);
    }
    if (finishes) meanwhile.finish_later(tile, part, column, width, groups);
  }
}

void multiply_block(const Block& b) {
  alignas(64) float tile[kBlockRows * kPanelWide];
  auto* const tails = static_cast<Bf16*>(b.row_scratch);
  auto* const scratch = reinterpret_cast<float*>(tails + b.count * kTailNumbers);
  const int64_t panels = (b.columns + kPanelWide - 1) / kPanelWide;
  for (int64_t row = 0; row < b.rows; row += kBlockRows) {
    const int64_t rows = smaller(b.rows - row, kBlockRows);
    if (row == 0 || rows < kBlockRows) use_tiles(shapes_of(rows));
    gather_tails(b, row, rows, tails);
    Partial partial{scratch, kPanelWide, kBlockRows * kPanelWide};
    if (b.finish == nullptr) partial = {b.sums + row * b.sums_stride, b.sums_stride, kPanelWide};
    for (Chunk chunk; chunk.last < b.count;) {
      chunk = chunk_from(b, chunk.last);
      Part next{.row = row, .rows = rows};
      if (chunk.last == b.count) next = {.row = row + rows, .rows = smaller(b.rows - row - rows, kBlockRows)};
      if (next.rows > 0) next.chunk = chunk_from(b, chunk.last % b.count);
      Meanwhile meanwhile(b, next, panels * groups_of(b, chunk));
      multiply_part(b, {chunk, row, rows}, tails, partial, tile, meanwhile);
      meanwhile.finish_all();
    }
  }
  release_tiles();
}

void multiply_in_registers(int64_t steps) {
  use_tiles(shapes_of(kBlockRows));
  for (int64_t step = 0; step < steps; ++step) {
    static_assert(kSpinChains == 12);
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      add_tile_product<0, 4, 6>();
      add_tile_product<1, 4, 7>();
      add_tile_product<2, 5, 6>();
      add_tile_product<3, 5, 7>();
    }
  }
  release_tiles();
}

}  // namespace

const GemmKernels* gemm_kernels_amx() {
  static constexpr GemmKernels kKernels = {.name = "amx",
                                           .form = GemmForm::kAmx,
                                           .tile_rows = kHigh,
                                           .block_columns = 512,
                                           .depth = kChunk,
                                           .step_depth = 1024,
                                           .flops = 1000e9,
                                           .multiply_block = multiply_block,
                                           .multiply_in_registers = multiply_in_registers,
                                           .spin_flop = 2 * kHigh * 16 * kTileDepth,
                                           .pack_rows = pack_rows_avx512,
                                           .pack_columns = pack_columns_avx512,
                                           .repack = repack_avx512,
                                           .transpose = transpose_avx512};
  return &kKernels;
}

}  // namespace hone::ops::kernels

#else

namespace hone::ops::kernels {

const GemmKernels* gemm_kernels_amx() {
  return nullptr;
}

}  // namespace hone::ops::kernels

#endif
