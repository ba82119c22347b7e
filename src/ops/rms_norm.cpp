#include "ops/rms_norm.h"

#include <ATen/ATen.h>

namespace hone::ops {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor x32 = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(x32.pow(2).mean(-1, /*keepdim=*/true) + eps);
  return weight * (x32 * scale).to(x.scalar_type());
}

}  // namespace hone::ops
