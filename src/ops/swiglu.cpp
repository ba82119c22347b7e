#include "ops/swiglu.h"

#include <ATen/ATen.h>

namespace hone::ops {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return at::silu(gate) * up;
}

void swiglu_into(at::Tensor out, const at::Tensor& gate, const at::Tensor& up) {
  const at::ScalarType inside = at::promote_types(gate.scalar_type(), at::kFloat);
  out.copy_(at::silu(gate.to(inside)) * up.to(inside));
}

void swiglu_backward(at::Tensor gate, at::Tensor up, const at::Tensor& d) {
  const at::ScalarType inside = at::promote_types(gate.scalar_type(), at::kFloat);
  const at::Tensor g = gate.to(inside), wide_d = d.to(inside);
  const at::Tensor s = at::sigmoid(g);
  const at::Tensor by_up = wide_d * g * s;  // before gate is overwritten: g may be its memory
  gate.copy_(wide_d * up.to(inside) * s * (1 + g * (1 - s)));
  up.copy_(by_up);
}

}  // namespace hone::ops
