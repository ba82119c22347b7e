#include "ops/quantized.h"

#include <ATen/ATen.h>

#include "ops/backend/layouts.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops::reference {

void dequantize(const Tensor& out, const Quantized& matrix) {
  if (matrix.layout != nullptr) {
    out.copy_(matrix.layout->dense(matrix.to(at::kCPU), at::kFloat));
    return;
  }
  if (matrix.scheme.type == QuantType::kInt8) {
    out.copy_(matrix.codes.to(at::kFloat) * matrix.row_scales.unsqueeze(1));
    return;
  }
  const Tensor codes = at::stack({matrix.codes.bitwise_right_shift(4), matrix.codes.bitwise_and(15)}, 1)
                           .view({-1})
                           .narrow(0, 0, matrix.out * matrix.in);
  const Tensor of_number =
      at::arange(matrix.out * matrix.in, matrix.codes.options().dtype(at::kLong)).floor_divide(matrix.block);
  Tensor scales = matrix.scales;
  if (matrix.scheme.nested) {
    const Tensor of_scale = at::arange(scales.numel(), of_number.options()).floor_divide(matrix.nested_block);
    scales = matrix.nested_table.index_select(0, scales.to(at::kLong)) *
             matrix.nested_scales.index_select(0, of_scale);
    if (matrix.nested_offsets.defined()) {
      const std::int64_t matrices = matrix.nested_offsets.numel();
      scales = (scales.view({matrices, -1}) + matrix.nested_offsets.unsqueeze(1)).flatten();
    } else {
      scales = scales + matrix.nested_offset;
    }
  }
  const Tensor values = matrix.table.index_select(0, codes.to(at::kLong)) * scales.index_select(0, of_number);
  out.copy_(values.view({matrix.out, matrix.in}));
}

}  // namespace hone::ops::reference
