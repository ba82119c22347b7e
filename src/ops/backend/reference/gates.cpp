// SwiGLU, the sigmoid gate and the soft cap.
#include <ATen/ATen.h>

#include "ops/backend/gelu_constants.h"
#include "ops/backend/reference/reference.h"
#include "ops/head/soft_cap.h"
#include "ops/sigmoid_gate.h"
#include "ops/swiglu.h"

namespace hone::ops {
namespace {

at::Tensor gelu_argument(const at::Tensor& g) {
  return (g * g * kGeluCubic + 1) * (g * kGeluScale);
}

at::Tensor activated(const at::Tensor& gate, bool gelu_tanh) {
  return gelu_tanh ? at::gelu(gate, "tanh") : at::silu(gate);
}

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, bool gelu_tanh) {
  return activated(gate, gelu_tanh) * up;
}

at::Tensor sigmoid_gate(const at::Tensor& x, const at::Tensor& gate) {
  return x * at::sigmoid(gate);
}

at::Tensor soft_cap(const at::Tensor& x, double cap) {
  return cap > 0 ? (x / cap).tanh() * cap : x;
}

namespace reference {

void swiglu(const Tensor& out, const Tensor& gate, const Tensor& up, bool gelu_tanh) {
  const at::ScalarType inside = at::promote_types(gate.scalar_type(), at::kFloat);
  out.copy_(activated(gate.to(inside), gelu_tanh) * up.to(inside));
}

void swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& d, bool gelu_tanh) {
  const at::ScalarType inside = at::promote_types(gate.scalar_type(), at::kFloat);
  const Tensor g = gate.to(inside), wide_d = d.to(inside);
  const Tensor s = at::sigmoid(gelu_tanh ? gelu_argument(g) : g);
  const Tensor by_up = wide_d * g * s;  // before gate is overwritten: g may be its memory
  const Tensor slope = gelu_tanh ? (g * g * (3 * kGeluCubic) + 1) * (g * kGeluScale) : g;
  gate.copy_(wide_d * up.to(inside) * s * (1 + slope * (1 - s)));
  up.copy_(by_up);
}

void sigmoid_gate(const Tensor& out, const Tensor& x, const Tensor& gate) {
  const at::ScalarType inside = at::promote_types(x.scalar_type(), at::kFloat);
  out.copy_(x.to(inside) * at::sigmoid(gate.to(inside)));
}

void sigmoid_gate_backward(const Tensor& gate, const Tensor& d, const Tensor& x) {
  const at::ScalarType inside = at::promote_types(x.scalar_type(), at::kFloat);
  const Tensor s = at::sigmoid(gate.to(inside)), by_x = d.to(inside) * s;
  gate.copy_(by_x * x.to(inside) * (1 - s));
  d.copy_(by_x);
}

void soft_cap(const Tensor& x, double cap) {
  x.div_(cap).tanh_().mul_(cap);
}

void soft_cap_backward(const Tensor& d, const Tensor& capped, double cap) {
  d.mul_((capped / cap).square_().neg_().add_(1));
}

}  // namespace reference
}  // namespace hone::ops
