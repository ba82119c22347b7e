#include "ops/rms_norm.h"

#include <ATen/ATen.h>

namespace hone::ops {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor x32 = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(x32.pow(2).mean(-1, /*keepdim=*/true) + eps);
  return weight * (x32 * scale).to(x.scalar_type());
}

void rms_norm_into(at::Tensor out, const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(at::promote_types(x.scalar_type(), at::kFloat));
  const at::Tensor scale = at::rsqrt(wide.pow(2).mean(-1, /*keepdim=*/true) + eps);
  out.copy_(weight * (wide * scale).to(x.scalar_type()));
}

void rms_norm_backward_add(at::Tensor dx, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                           double eps) {
  const at::ScalarType inside = at::promote_types(x.scalar_type(), at::kFloat);
  const at::Tensor wide = x.to(inside);
  const at::Tensor scale = at::rsqrt(wide.pow(2).mean(-1, /*keepdim=*/true) + eps);
  const at::Tensor normed = wide * scale;
  const at::Tensor g = dy.to(inside) * weight.to(inside);
  dx.copy_(dx.to(inside) + scale * (g - normed * (g * normed).mean(-1, /*keepdim=*/true)));
}

}  // namespace hone::ops
