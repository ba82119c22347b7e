// The inner loops of our GEMM on raw pointers, one GemmKernels for each instruction set:
//
//   amx (amx)           bf16; sums of 32 neighboring k (tdpbf16ps): those of even and of odd k first; tiles of 32 x 32
//   dot (avx512_bf16)   bf16; sums of pairs of neighboring k (vdpbf16ps); tiles of 14 x 32
//   fma (avx512)        bf16 and float32; float32 additions in the order of k; tiles of 14 x 32
//   fma (avx2)          the same sums, and so the same bits, in tiles of 6 x 16
//
// A panel is 32 columns of the right-hand matrix over a slice of k, in words of 32 bits: [words][32]. A word is a
// pair of neighboring k of bf16 (the first in the lower half, zero behind the last of an odd k), or one float32.
// bf16 is its 16 bits. The fma form widens bf16 in registers: a product of two is exact in float32.
#pragma once

#include <cstdint>

namespace hone::ops::kernels {

using Bf16 = std::uint16_t;
using Word = std::uint32_t;

constexpr std::int64_t kPanelWide = 32;  // columns of a panel; one word each
constexpr std::int64_t kTileDepth = 32;  // numbers of k of an instruction of the amx form
constexpr std::int64_t kRowGap = 16;     // numbers after a row in the fma form's row_scratch
constexpr int kMaxSlices = 64;           // of a block whose rows are copied

[[gnu::always_inline]] inline std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

// Numbers of k to words of a panel.
constexpr std::int64_t words_of(std::int64_t k, bool is_float) {
  return is_float ? k : (k + 1) / 2;
}

struct PanelView;  // quantized_kernels.h

// A slice of k of one term: a [rows, k] times panels. One block's slices are of one type.
struct Slice {
  const void* a = nullptr;
  std::int64_t a_stride = 0;     // numbers
  const Word* panels = nullptr;  // the first panel of the block
  // Of at most kCodedRows rows (amx: kAmxCodedRows): instead of panels, numbers begin .. begin + k of a quantized
  // matrix, from this panel on.
  const PanelView* codes = nullptr;
  std::int64_t first_panel = 0, begin = 0;
  std::int64_t panel_stride = 0;  // words
  std::int64_t k = 0;
  // Bytes of the panels to fetch into L2 before they are read: of those in memory; a multiple of 2 KB.
  std::int64_t ahead = 0;
  bool padded = false;  // the panels go on with zeros up to a multiple of kTileDepth numbers
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
// from `sums` [rows, sums_stride]; they are written to finish->out, or to `sums` when finish is null. A panel's
// upper 16 columns are never read when only the lower ones are needed.
struct Block {
  const Slice* slices = nullptr;
  int count = 0;
  bool is_float = false;
  std::int64_t rows = 0, columns = 0;
  float* sums = nullptr;
  std::int64_t sums_stride = 0;
  bool first = true;
  const Finish* finish = nullptr;
  // dot: null, or the rows are copied there, one tile at a time (for strides that map to a few sets of L1): of more
  // than few_rows() rows, at most kMaxSlices slices. fma: always; the rows are widened there. amx: always; for rows that
  // end inside a group of kTileDepth, and for sums between chunks of k.
  void* row_scratch = nullptr;
};

[[gnu::always_inline]] inline bool has_codes(const Block& block) {
  for (int s = 0; s < block.count; ++s) {
    if (block.slices[s].codes != nullptr) return true;
  }
  return false;
}

constexpr int kSpinChains = 12;  // of GemmKernels::multiply_in_registers

// What a sum is, and how rows are read: see above and Block::row_scratch.
enum class GemmForm { kFma, kDot, kAmx };

struct GemmKernels {
  const char* name = nullptr;
  GemmForm form = GemmForm::kFma;
  std::int64_t tile_rows = 0;        // few rows (at most two tiles) read each panel once
  std::int64_t block_columns = 256;  // of a block: its panels stay in L2 while the rows pass
  std::int64_t depth =
      0;  // numbers of k of a slice, at most, unless few rows' panels are read in place (not by fma)
  std::int64_t step_depth = 0;  // numbers of k of a step, at most, besides small terms
  double flops = 0;             // of a thread, a second, about
  void (*multiply_block)(const Block& block);

  // The limit of multiply_block: kSpinChains of its instructions a step, each spin_flop, on registers alone.
  void (*multiply_in_registers)(std::int64_t steps);
  std::int64_t spin_flop = 0;

  // One panel out of rows of W [rows <= 32, k]. Missing rows are zero; with rows <= 16 the upper half is not
  // written.
  void (*pack_rows)(const Bf16* w, std::int64_t stride, std::int64_t rows, std::int64_t k, Word* panel);
  // One panel out of columns of W [k, columns <= 32]. `next`: fetch the 32 columns to the right as well.
  void (*pack_columns)(const Bf16* w, std::int64_t stride, std::int64_t columns, std::int64_t k, bool next,
                       Word* panel);
  // One panel of W^T out of the panels of W [k, in], from pair `pair` of in on: columns 2 * pair .. + columns.
  // `panels` points at the first of the k rows, which must be the first row of a panel.
  void (*repack)(const Word* panels, std::int64_t panel_stride, std::int64_t pair, std::int64_t columns,
                 std::int64_t k, Word* panel);

  // x [rows, columns] of bf16 to [columns, to_stride >= rows]; null: none.
  void (*transpose)(const Bf16* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, Bf16* to,
                    std::int64_t to_stride) = nullptr;

  std::int64_t few_rows() const { return 2 * tile_rows; }
  // Bytes of Block::row_scratch.
  std::int64_t scratch_bytes(const Block& block) const;
};

inline std::int64_t GemmKernels::scratch_bytes(const Block& block) const {
  const bool few = block.rows <= few_rows();
  const std::int64_t rows = few ? block.rows : tile_rows;
  if (form == GemmForm::kFma) return block.count * rows * (depth + kRowGap) * 4;
  if (form == GemmForm::kAmx) {  // rows that end inside a group, and sums
    return 2 * tile_rows * (block.count * kTileDepth * 2 + (block.columns + 31) / 32 * 32 * 4);
  }
  std::int64_t numbers = 0;
  for (int s = 0; s < block.count; ++s) numbers += (block.slices[s].k + 31) / 32 * 32 + 32;
  return numbers * rows * 2;
}

// Null where the compiler does not make one. level.h names the one to call.
const GemmKernels* gemm_kernels_amx();
const GemmKernels* gemm_kernels_dot();
const GemmKernels* gemm_kernels_avx512();
const GemmKernels* gemm_kernels_avx2();

// pack_rows, pack_columns, repack and transpose with AVX-512 (gemm_pack_avx512.cpp).
void pack_rows_avx512(const Bf16* w, std::int64_t stride, std::int64_t rows, std::int64_t k, Word* panel);
void pack_columns_avx512(const Bf16* w, std::int64_t stride, std::int64_t columns, std::int64_t k, bool next,
                         Word* panel);
void repack_avx512(const Word* panels, std::int64_t panel_stride, std::int64_t pair, std::int64_t columns,
                   std::int64_t k, Word* panel);
void transpose_avx512(const Bf16* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, Bf16* to,
                      std::int64_t to_stride);

}  // namespace hone::ops::kernels
