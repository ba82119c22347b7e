#include "ops/rms_norm.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

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

void rms_norm_weight_gradient(at::Tensor gradient, const at::Tensor& dy, const at::Tensor& x, double eps) {
  // at a time: a few temporaries of this many rows
  const std::int64_t rows_at_once = backend::operators_of(x.device()).norm_rows;
  base::require(dy.dim() == 2 && dy.sizes() == x.sizes() && gradient.dim() == 1 &&
                    gradient.size(0) == x.size(1) && gradient.scalar_type() == at::kFloat,
                "ops::rms_norm_weight_gradient", "dy and x [T, H], gradient [H] fp32");
  for (std::int64_t begin = 0; begin < x.size(0); begin += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, x.size(0) - begin);
    const at::Tensor rows = x.narrow(0, begin, count), wide = rows.to(at::kFloat);
    const at::Tensor normed = (wide * inverse_rms(wide, eps)).to(x.scalar_type()).to(at::kFloat);
    gradient.add_(normed.mul_(dy.narrow(0, begin, count)).sum(0));
  }
}

namespace reference {

void rms_norm(const Tensor& out, const Tensor& x, const Tensor& weight, double eps) {
  out.copy_(ops::rms_norm(x, weight, eps));
}

void rms_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight,
                       double eps) {
  const at::ScalarType inside = at::promote_types(x.scalar_type(), at::kFloat);
  dx.copy_(dx.to(inside) + rms_gradient(dy.to(inside) * weight.to(inside), x.to(inside), eps));
}

}  // namespace reference
}  // namespace hone::ops
