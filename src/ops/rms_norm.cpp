#include "ops/rms_norm.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

bool same_rows(const at::Tensor& a, const at::Tensor& b) {
  return a.dim() == 2 && b.dim() == 2 && a.size(0) == b.size(0) && a.size(1) == b.size(1);
}

}  // namespace

void rms_norm_into(at::Tensor out, const at::Tensor& x, const at::Tensor& weight, double eps) {
  base::require(same_rows(out, x) && weight.dim() == 1 && weight.size(0) == x.size(1), "ops::rms_norm_into",
                "out and x [T, H], weight [H]");
  backend::run(x.device(), &backend::Operators::rms_norm, reference::rms_norm, out, x, weight, eps);
}

void rms_norm_backward_add(at::Tensor dx, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                           double eps) {
  base::require(same_rows(dx, x) && same_rows(dy, x) && weight.dim() == 1 && weight.size(0) == x.size(1),
                "ops::rms_norm_backward_add", "dx, dy and x [T, H], weight [H]");
  backend::run(x.device(), &backend::Operators::rms_norm_backward, reference::rms_norm_backward, dx, dy, x,
               weight, eps);
}

void rms_norm_backward_add(at::Tensor dx, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                           double eps, const at::Tensor& cast) {
  base::require(same_rows(cast, x), "ops::rms_norm_backward_add", "cast [T, H]");
  const auto kernel = backend::operators_of(x.device()).rms_norm_backward_cast;
  if (kernel != nullptr && kernel(cast, dx, dy, x, weight, eps)) return;
  rms_norm_backward_add(dx, dy, x, weight, eps);
  at::Tensor(cast).copy_(dx);
}

}  // namespace hone::ops
