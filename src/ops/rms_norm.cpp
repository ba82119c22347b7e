#include "ops/rms_norm.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "ops/cpu/row_call.h"

namespace hone::ops {
namespace {

bool same_rows(const at::Tensor& a, const at::Tensor& b) {
  return a.dim() == 2 && b.dim() == 2 && a.size(0) == b.size(0) && a.size(1) == b.size(1);
}

at::Tensor inverse_rms(const at::Tensor& x, double eps) {
  return at::rsqrt(x.pow(2).mean(-1, /*keepdim=*/true) + eps);
}

}  // namespace

at::Tensor rms_gradient(const at::Tensor& g, const at::Tensor& x, double eps) {
  const at::Tensor scale = inverse_rms(x, eps), normed = x * scale;
  return scale * (g - normed * (g * normed).mean(-1, /*keepdim=*/true));
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(at::promote_types(x.scalar_type(), at::kFloat));
  return weight * (wide * inverse_rms(wide, eps)).to(x.scalar_type());
}

void rms_norm_into(at::Tensor out, const at::Tensor& x, const at::Tensor& weight, double eps) {
  base::require(same_rows(out, x) && weight.dim() == 1 && weight.size(0) == x.size(1), "ops::rms_norm_into",
                "out and x [T, H], weight [H]");
  if (rows_fit({&out, &x, &weight})) {
    const NormArgs norm = {.x = rows_in(x),
                           .weight = rows_in(weight),
                           .out = rows_out(out),
                           .width = x.size(1),
                           .eps = static_cast<float>(eps)};
    const RowKernels& kernels = row_kernels();
    over_rows(x.size(0), x.size(1),
              [&](std::int64_t begin, std::int64_t end) { kernels.norm(norm, begin, end); });
    return;
  }
  out.copy_(rms_norm(x, weight, eps));
}

void rms_norm_backward_add(at::Tensor dx, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                           double eps) {
  base::require(same_rows(dx, x) && same_rows(dy, x) && weight.dim() == 1 && weight.size(0) == x.size(1),
                "ops::rms_norm_backward_add", "dx, dy and x [T, H], weight [H]");
  if (rows_fit({&dx, &dy, &x, &weight}) && dx.scalar_type() == x.scalar_type()) {
    const NormBackwardArgs norm = {.x = rows_in(x),
                                   .weight = rows_in(weight),
                                   .dy = rows_in(dy),
                                   .dx = rows_out(dx),
                                   .width = x.size(1),
                                   .eps = static_cast<float>(eps)};
    const RowKernels& kernels = row_kernels();
    over_rows(x.size(0), x.size(1),
              [&](std::int64_t begin, std::int64_t end) { kernels.norm_backward(norm, begin, end); });
    return;
  }
  const at::ScalarType inside = at::promote_types(x.scalar_type(), at::kFloat);
  dx.copy_(dx.to(inside) + rms_gradient(dy.to(inside) * weight.to(inside), x.to(inside), eps));
}

void rms_norm_weight_gradient(at::Tensor gradient, const at::Tensor& dy, const at::Tensor& x, double eps) {
  constexpr std::int64_t kRows = 256;  // at a time: a few temporaries of this many rows
  base::require(same_rows(dy, x) && gradient.dim() == 1 && gradient.size(0) == x.size(1) &&
                    gradient.scalar_type() == at::kFloat,
                "ops::rms_norm_weight_gradient", "dy and x [T, H], gradient [H] fp32");
  for (std::int64_t begin = 0; begin < x.size(0); begin += kRows) {
    const std::int64_t count = std::min(kRows, x.size(0) - begin);
    const at::Tensor rows = x.narrow(0, begin, count), wide = rows.to(at::kFloat);
    const at::Tensor normed = (wide * inverse_rms(wide, eps)).to(x.scalar_type()).to(at::kFloat);
    gradient.add_(normed.mul_(dy.narrow(0, begin, count)).sum(0));
  }
}

}  // namespace hone::ops
