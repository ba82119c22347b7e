#include "ops/soft_cap.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/cpu/row_call.h"

namespace hone::ops {

at::Tensor soft_cap(const at::Tensor& x, double cap) {
  return cap > 0 ? (x / cap).tanh() * cap : x;
}

void soft_cap_into(at::Tensor x, double cap) {
  if (cap <= 0) return;
  base::require(x.dim() == 2 && x.scalar_type() == at::kFloat, "ops::soft_cap_into", "[n, w] fp32");
  if (!rows_fit({&x})) {
    x.div_(cap).tanh_().mul_(cap);
    return;
  }
  const CapArgs args = {.x = {}, .out = rows_out(x), .width = x.size(1), .cap = static_cast<float>(cap)};
  const RowKernels& kernels = row_kernels();
  over_rows(x.size(0), x.size(1),
            [&](std::int64_t begin, std::int64_t end) { kernels.cap(args, begin, end); });
}

void soft_cap_backward(at::Tensor d, const at::Tensor& capped, double cap) {
  if (cap <= 0) return;
  base::require(d.dim() == 2 && d.sizes() == capped.sizes() && capped.scalar_type() == at::kFloat,
                "ops::soft_cap_backward", "d [n, w] and the capped values in fp32");
  if (!rows_fit({&d, &capped})) {
    d.mul_((capped / cap).square_().neg_().add_(1));
    return;
  }
  const CapArgs args = {
      .x = rows_in(capped), .out = rows_out(d), .width = d.size(1), .cap = static_cast<float>(cap)};
  const RowKernels& kernels = row_kernels();
  over_rows(d.size(0), d.size(1),
            [&](std::int64_t begin, std::int64_t end) { kernels.cap_backward(args, begin, end); });
}

}  // namespace hone::ops
