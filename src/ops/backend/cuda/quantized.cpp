// Codes of 4 and 8 bits by a kernel of our own. Without it those of 4 bits in few calls: a byte is two numbers of a table, times
// the scale of their block, rounded once.
#include <ATen/ATen.h>

#include <algorithm>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/own_kernels.h"
#include "ops/kept_ggml.h"

namespace hone::ops::cuda {
namespace {

// [256, 2] fp32: both numbers of each byte, the one of the upper half first. Kept for the last table, which all matrices of a
// model share.
Tensor numbers_of_codes(const Tensor& table) {
  struct Known {
    Tensor table, pairs;
  };
  thread_local Known& known = *new Known;  // never destroyed: its tensors may outlive the device's runtime
  if (!known.table.is_same(table))
    known = {.table = table,
             .pairs = at::stack({table.unsqueeze(1).expand({16, 16}).flatten(),
                                 table.unsqueeze(0).expand({16, 16}).flatten()},
                                1)};
  return known.pairs;
}

// [blocks] fp32
Tensor scales_of(const Quantized& matrix) {
  if (!matrix.scheme.nested) return matrix.scales;
  const std::int64_t blocks = matrix.scales.numel(), groups = matrix.nested_scales.numel();
  const Tensor scales =
      at::embedding(matrix.nested_table.unsqueeze(1), matrix.scales.to(at::kInt)).view({-1});
  const Tensor of_groups =
      matrix.nested_scales.unsqueeze(1).expand({groups, matrix.nested_block}).reshape({-1});
  scales.mul_(of_groups.narrow(0, 0, blocks));
  if (!matrix.nested_offsets.defined()) return scales.add_(matrix.nested_offset);
  return scales.view({matrix.nested_offsets.numel(), -1}).add_(matrix.nested_offsets.unsqueeze(1)).flatten();
}

bool own_dequantize(const Tensor& out, const Quantized& matrix) {
  return run_own(
      out.device(), &kernels::Kernels::dequantize, "dequantize", [&](KernelViews& of) -> kernels::Dequantize {
        const bool nested = matrix.scheme.nested, is_int8 = matrix.scheme.type == QuantType::kInt8;
        const Tensor& scales = is_int8 ? matrix.row_scales : nested ? matrix.nested_scales : matrix.scales;
        const Tensor& offsets = matrix.nested_offsets;
        return {.out = of.rows(out),
                .codes = matrix.codes.const_data_ptr(),
                .table = is_int8 ? nullptr : of.numbers<const float>(matrix.table),
                .scales = of.numbers<const float>(scales),
                .scale_codes = nested ? of.numbers<const std::uint8_t>(matrix.scales) : nullptr,
                .scale_table = nested ? of.numbers<const float>(matrix.nested_table) : nullptr,
                .offsets = offsets.defined() ? of.numbers<const float>(offsets) : nullptr,
                .offset = matrix.nested_offset,
                .rows = matrix.out,
                .in = matrix.in,
                .block = matrix.block,
                .nested_block = matrix.nested_block,
                .blocks_of_matrix = offsets.defined() ? matrix.scales.numel() / offsets.numel() : 1};
      });
}

// This is for a matrix that a GGUF has in blocks.
bool own_dequantize_panels(const Tensor& out, const Quantized& matrix) {
  static_assert(kernels::kPanelRows == kGgmlPanelRows);
  constexpr std::int64_t kEight = 8;
  return run_own(out.device(), &kernels::Kernels::dequantize_panels, "dequantize_panels",
                 [&](KernelViews& of) -> kernels::DequantizePanels {
                   const GgmlPanels panels = ggml_panels(matrix);
                   const auto place = reinterpret_cast<std::uintptr_t>(out.data_ptr());
                   of.need(matrix.out % kernels::kPanelRows == 0 && matrix.in % kernels::kPanelColumns == 0);
                   of.need(out.stride(0) % kEight == 0 && place % (kEight * out.element_size()) == 0);
                   return {.out = of.rows(out),
                           .low = panels.low,
                           .high = panels.high,
                           .halves = panels.halves,
                           .factors = panels.factors,
                           .rows = matrix.out,
                           .in = matrix.in,
                           .block = panels.block,
                           .group = panels.group,
                           .bits = panels.bits,
                           .zero = panels.zero,
                           .has_minimum = panels.has_minimum};
                 });
}

}  // namespace

bool dequantize(const Tensor& out, const Quantized& matrix) {
  constexpr std::int64_t kAtOnce = 1 << 24;  // numbers: what is between the operators is 96 MB
  const std::int64_t numbers = matrix.out * matrix.in, block = matrix.block;
  const bool is_narrow = matrix.scheme.type == QuantType::kNf4 || matrix.scheme.type == QuantType::kFp4;
  if (is_ggml(matrix.scheme.type)) return own_dequantize_panels(out, matrix);
  if (matrix.layout == nullptr && own_dequantize(out, matrix)) return true;
  if (!is_narrow || matrix.layout != nullptr || numbers % block != 0 || block % 2 != 0 ||
      !out.is_contiguous())
    return false;
  const Tensor pairs = numbers_of_codes(matrix.table), codes = matrix.codes.flatten(),
               scales = scales_of(matrix).unsqueeze(1), rows = out.view({-1, block});
  for (std::int64_t first = 0; first < rows.size(0); first += kAtOnce / block) {
    const std::int64_t count = std::min(kAtOnce / block, rows.size(0) - first);
    const Tensor bytes = codes.narrow(0, first * block / 2, count * block / 2);
    const Tensor values = at::embedding(pairs, bytes.to(at::kInt)).view({count, block});
    Tensor into = rows.narrow(0, first, count);
    at::mul_out(into, values, scales.narrow(0, first, count));
  }
  return true;
}

}  // namespace hone::ops::cuda
