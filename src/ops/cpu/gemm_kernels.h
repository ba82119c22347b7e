// The inner loops of the bf16 GEMM on avx512_bf16, on raw pointers (bf16 as its 16 bits). Call them only when
// instructions() is kAvx512Bf16; elsewhere they are empty.
//
// A panel is 32 columns of the right-hand matrix over a slice of k: [ceil(k / 2)][32][2], 64 numbers per pair
// of k.
#pragma once

#include <cstdint>

namespace hone::ops::kernels {

using Bf16 = std::uint16_t;

constexpr std::int64_t kPairStep = 64;  // numbers from one pair of k to the next
constexpr int kMaxSlices = 64;          // of a block whose rows are copied
// 14 x 2 accumulators, 2 of the panel, 1 of the row: 31 of 32 registers
constexpr std::int64_t kTileRows = 14;

// A slice of k of one term: a [rows, k] times panels.
struct Slice {
  const Bf16* a = nullptr;
  std::int64_t a_stride = 0;
  const Bf16* panels = nullptr;  // the first panel of the block
  std::int64_t panel_stride = 0;
  std::int64_t k = 0;
  std::int64_t ahead = 0;  // bytes of the panels to fetch into L2 before they are read: of those in memory
};

// The epilogue of a sum: out = cast(scale * sum + bias + residual). Pointers are at the block's first
// element; strides are in elements.
struct Finish {
  float scale = 1;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* out = nullptr;
  std::int64_t residual_stride = 0, out_stride = 0;
  bool bias_is_bf16 = false, residual_is_bf16 = false, out_is_bf16 = false;
};

// One step over the slices, in order, of a block rows x columns. The sums start at zero when `first`, else
// from `sums` [rows, sums_stride]; they are written to finish->out, or to `sums` when finish is null. Never
// reads a panel's upper 16 columns when only the lower ones are needed. With row_scratch the rows are copied
// there, one tile at a time (for strides that map to a few sets of L1): kTileRows * sum of (k rounded up to
// 32, + 32) numbers, more than 28 rows, at most kMaxSlices slices.
void multiply_block(const Slice* slices, int count, std::int64_t rows, std::int64_t columns, float* sums,
                    std::int64_t sums_stride, bool first, const Finish* finish, Bf16* row_scratch);

// One panel out of rows of W [rows <= 32, k]. Missing rows are zero; with rows <= 16 the upper half is not
// written.
void pack_rows(const Bf16* w, std::int64_t stride, std::int64_t rows, std::int64_t k, Bf16* panel);
// One panel out of columns of W [k, columns <= 32]. `next`: fetch the 32 columns to the right as well.
void pack_columns(const Bf16* w, std::int64_t stride, std::int64_t columns, std::int64_t k, bool next,
                  Bf16* panel);
// One panel of W^T out of the panels of W [k, in], from pair `pair` of in on: columns 2 * pair .. + columns.
// `panels` points at the first of the k rows, which must be the first row of a panel.
void repack(const Bf16* panels, std::int64_t panel_stride, std::int64_t pair, std::int64_t columns,
            std::int64_t k, Bf16* panel);

}  // namespace hone::ops::kernels
