#include "ops/backend/cpu/quantized_panels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/gemm_blocks.h"
#include "ops/backend/cpu/level.h"

namespace hone::ops {
namespace {

using kernels::kPanelWide;
using kernels::PanelScales;
using kernels::PanelView;
using kernels::Word;
using std::int64_t;

constexpr int64_t kUnit = 64;  // numbers of a row: what the GEMM's slices begin at

// Two codes a byte, the first in the upper half; in a word the first is lowest.
Word swapped_halves(Word word) {
  return (word & 0x0F0F0F0FU) << 4 | (word >> 4 & 0x0F0F0F0FU);
}

// 4 bits: words [out][in / 8] to [panel][in / 8][32], or back. 8 bits: bytes.
template <typename T>
void reorder(const void* from, void* to, int64_t out, int64_t words, bool to_panels) {
  const auto* const source = static_cast<const T*>(from);
  auto* const target = static_cast<T*>(to);
  at::parallel_for(
      0, out / kPanelWide, 1 + (1 << 16) / (words * kPanelWide), [&](int64_t begin, int64_t end) {
        for (int64_t panel = begin; panel < end; ++panel) {
          const int64_t first = panel * kPanelWide * words;
          for (int64_t row = 0; row < kPanelWide; ++row) {
            for (int64_t i = 0; i < words; ++i) {
              const int64_t in_rows = first + row * words + i, in_panels = first + i * kPanelWide + row;
              const T code = source[to_panels ? in_rows : in_panels];
              if constexpr (sizeof(T) == 1) {
                target[to_panels ? in_panels : in_rows] = code;
              } else {
                target[to_panels ? in_panels : in_rows] = swapped_halves(code);
              }
            }
          }
        }
      });
}

at::Tensor reordered(const Quantized& matrix, bool to_panels) {
  at::Tensor codes = at::empty_like(matrix.codes);
  const void* const from = matrix.codes.const_data_ptr();
  void* const to = codes.mutable_data_ptr();
  if (matrix.scheme.type == QuantType::kInt8) {
    reorder<std::uint8_t>(from, to, matrix.out, matrix.in, to_panels);
  } else {
    reorder<Word>(from, to, matrix.out, matrix.in / 8, to_panels);
  }
  return codes;
}

// PanelView::is_tame: scales and table are far from what fp32 cannot hold.
bool is_tame(const Quantized& matrix) {
  const auto between = [](float x, float least, float most) {
    return x == 0 || (std::fabs(x) >= least && std::fabs(x) <= most);
  };
  if (matrix.table.defined()) {
    for (int64_t i = 0; i < 16; ++i) {
      if (!between(matrix.table.const_data_ptr<float>()[i], 0x1p-15F, 0x1p10F)) return false;
    }
  }
  const kernels::QuantizedView view = view_of(matrix);
  const int64_t blocks = matrix.out * matrix.in / matrix.block;
  for (int64_t block = 0; block < blocks; ++block) {
    if (!between(kernels::scale_at(view, block), 0x1p-100F, 0x1p80F)) return false;
  }
  return true;
}

// Row `row` of a panel that is unpacked to `count` words a row: a word is a float, or a pair of bf16.
void put_row(const Word* panel, int64_t row, int64_t count, char* to) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + 4 * i, panel + i * kPanelWide + row, sizeof(Word));
}

}  // namespace

bool fits_panels(const Quantized& matrix) {
  return matrix.out % kPanelWide == 0 && matrix.in % kUnit == 0 && matrix.in % matrix.block == 0 &&
         matrix.block % 16 == 0;
}

kernels::QuantizedView view_of(const Quantized& matrix) {
  base::require(!matrix.nested_offsets.defined(), "ops::view_of", "a matrix of its own");
  kernels::QuantizedView seen;
  seen.codes = static_cast<const std::uint8_t*>(matrix.codes.const_data_ptr());
  seen.block = matrix.block;
  seen.in = matrix.in;
  if (matrix.scheme.type == QuantType::kInt8) {
    seen.scales = matrix.row_scales.const_data_ptr<float>();
    return seen;
  }
  seen.table = matrix.table.const_data_ptr<float>();
  if (matrix.scheme.nested) {
    seen.scale_codes = matrix.scales.const_data_ptr<std::uint8_t>();
    seen.scale_table = matrix.nested_table.const_data_ptr<float>();
    seen.scale_scales = matrix.nested_scales.const_data_ptr<float>();
    seen.scale_offset = matrix.nested_offset;
    seen.scale_block = matrix.nested_block;
  } else {
    seen.scales = matrix.scales.const_data_ptr<float>();
  }
  return seen;
}

PanelView panel_view(const Quantized& matrix) {
  base::require(matrix.layout == &cpu::kPanelCodes, "ops::panel_view", "a matrix in panels");
  if (is_ggml(matrix.scheme.type)) return ggml_panel_view(matrix);
  PanelView view;
  view.low = static_cast<const std::uint8_t*>(matrix.codes.const_data_ptr());
  view.in = matrix.in;
  view.group = matrix.block;
  view.is_tame = matrix.is_tame;
  view.bits = matrix.scheme.type == QuantType::kInt8 ? 8 : 4;
  view.of_rows = view_of(matrix);
  view.table = view.of_rows.table;
  return view;
}

namespace cpu {
namespace {

bool codes_fit(const Quantized& matrix, at::ScalarType compute) {
  return matrix.codes.device().is_cpu() && gemm_kernels(compute) != nullptr && fits_panels(matrix);
}

Quantized in_panels(const Quantized& matrix) {
  if (matrix.layout == &kPanelCodes) return matrix;
  base::require(fits_panels(matrix) && matrix.codes.device().is_cpu(), "ops::in_panels",
                "whole panels on the CPU");
  Quantized out = matrix;
  out.codes = reordered(matrix, /*to_panels=*/true);
  out.is_tame = is_tame(matrix);
  out.layout = &kPanelCodes;
  return out;
}

Quantized from_panels(const Quantized& matrix) {
  base::require(!is_ggml(matrix.scheme.type), "ops::in_rows", "a matrix of bitsandbytes");
  Quantized out = matrix;
  out.codes = reordered(matrix, /*to_panels=*/false);
  out.layout = nullptr;
  return out;
}

at::Tensor dequantize_panels(const Quantized& matrix, at::ScalarType dtype) {
  const bool is_float = dtype == at::kFloat;
  base::require(is_float || dtype == at::kBFloat16, "ops::dequantize_panels", "float32 or bfloat16");
  at::Tensor out = at::empty({matrix.out, matrix.in}, dtype);
  const PanelView view = panel_view(matrix);
  const auto unpack = level_kernels().unpack_panel;
  const int64_t size = is_float ? 4 : 2;
  auto* const to = static_cast<char*>(out.mutable_data_ptr());
  at::parallel_for(0, matrix.out / kPanelWide, 1 + (1 << 15) / (matrix.in * kPanelWide),
                   [&](int64_t begin, int64_t end) {
                     alignas(64) Word words[kUnit * kPanelWide];
                     for (int64_t panel = begin; panel < end; ++panel) {
                       for (int64_t k = 0; k < matrix.in; k += kUnit) {
                         unpack(view, {panel, k, kUnit, is_float, words});
                         for (int64_t row = 0; row < kPanelWide; ++row)
                           put_row(words, row, kernels::words_of(kUnit, is_float),
                                   to + ((panel * kPanelWide + row) * matrix.in + k) * size);
                       }
                     }
                   });
  return out;
}

at::Tensor dequantize_panel_rows(const Quantized& matrix, std::span<const int64_t> rows,
                                 at::ScalarType dtype) {
  const bool is_float = dtype == at::kFloat;
  base::require(is_float || dtype == at::kBFloat16, "ops::dequantize_panel_rows", "float32 or bfloat16");
  const auto n = static_cast<int64_t>(rows.size());
  at::Tensor out = at::empty({n, matrix.in}, dtype);
  const PanelView view = panel_view(matrix);
  const auto unpack = level_kernels().unpack_panel;
  const int64_t words = kernels::words_of(matrix.in, is_float);
  auto* const to = static_cast<char*>(out.mutable_data_ptr());
  at::parallel_for(0, n, kPanelWide, [&](int64_t begin, int64_t end) {
    std::vector<Word> panel(static_cast<std::size_t>(words * kPanelWide));
    int64_t unpacked = -1;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = rows[static_cast<std::size_t>(i)];
      if (row / kPanelWide != unpacked) {
        unpacked = row / kPanelWide;
        unpack(view, {unpacked, 0, matrix.in, is_float, panel.data()});
      }
      put_row(panel.data(), row % kPanelWide, words, to + i * words * 4);
    }
  });
  return out;
}

}  // namespace

const backend::CodeLayout kPanelCodes = {.fits = codes_fit,
                                         .arrange = in_panels,
                                         .in_rows = from_panels,
                                         .dense = dequantize_panels,
                                         .rows = dequantize_panel_rows};

bool dequantize(const Tensor& out, const Quantized& matrix) {
  const at::ScalarType dtype = out.scalar_type();
  if (dtype != at::kFloat && dtype != at::kBFloat16) return false;
  if (matrix.nested_offsets.defined()) return false;  // one number is added to all scales here
  const int64_t n = matrix.out * matrix.in;
  const kernels::QuantizedView view = view_of(matrix);
  void* const to = out.mutable_data_ptr();
  at::parallel_for(0, (n + matrix.block - 1) / matrix.block, 1 + (1 << 15) / matrix.block,
                   [&](int64_t begin, int64_t end) {
                     const int64_t first = begin * matrix.block,
                                   count = std::min(n, end * matrix.block) - first;
                     if (dtype == at::kFloat) {
                       kernels::dequantize_run(view, first, count, static_cast<float*>(to) + first);
                     } else {
                       kernels::dequantize_run(view, first, count, static_cast<kernels::Bf16*>(to) + first);
                     }
                   });
  return true;
}

}  // namespace cpu
}  // namespace hone::ops
