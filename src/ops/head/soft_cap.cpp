#include "ops/head/soft_cap.h"

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {

void soft_cap_into(at::Tensor x, double cap) {
  if (cap <= 0) return;
  base::require(x.dim() == 2 && x.scalar_type() == at::kFloat, "ops::soft_cap_into", "[n, w] fp32");
  backend::run(x.device(), &backend::Operators::soft_cap, reference::soft_cap, x, cap);
}

void soft_cap_backward(at::Tensor d, const at::Tensor& capped, double cap) {
  if (cap <= 0) return;
  base::require(d.dim() == 2 && d.sizes() == capped.sizes() && capped.scalar_type() == at::kFloat,
                "ops::soft_cap_backward", "d [n, w] and the capped values in fp32");
  backend::run(d.device(), &backend::Operators::soft_cap_backward, reference::soft_cap_backward, d, capped,
               cap);
}

}  // namespace hone::ops
