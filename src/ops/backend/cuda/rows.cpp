#include <ATen/ATen.h>

#include "ops/backend/cuda/cuda_operators.h"

namespace hone::ops::cuda {
namespace {

bool is_narrow(const Tensor& x) {
  return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf;
}

// A norm and its weight as the kernel takes them.
bool is_normed(const Tensor& x, const Tensor& weight) {
  return weight.scalar_type() == x.scalar_type() && x.scalar_type() != at::kDouble;
}

}  // namespace

// The product with the weight is rounded once; the definition rounds the normed row before it too.
bool rms_norm(const Tensor& out, const Tensor& x, const Tensor& weight, double eps) {
  if (!is_normed(x, weight)) return false;
  out.copy_(std::get<0>(at::_fused_rms_norm(x, weight.sizes(), weight, eps)));
  return true;
}

// In bf16 the norm's own gradient is rounded before it is added to dx.
bool rms_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight,
                       double eps) {
  if (!is_normed(x, weight)) return false;
  const Tensor inverse = std::get<1>(at::_fused_rms_norm(x, weight.sizes(), weight, eps));
  Tensor(dx).add_(std::get<0>(at::_fused_rms_norm_backward(dy.to(x.scalar_type()), x, weight.sizes(), inverse,
                                                           weight, {true, false})));
  return true;
}

// As transformers computes it: the activation is rounded to bf16 before the product.
bool swiglu(const Tensor& out, const Tensor& gate, const Tensor& up, bool gelu_tanh) {
  if (!is_narrow(gate)) return false;
  Tensor into = out;
  at::mul_out(into, gelu_tanh ? at::gelu(gate, "tanh") : at::silu(gate), up);
  return true;
}

bool swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& d, bool gelu_tanh) {
  if (!is_narrow(gate)) return false;
  const Tensor of_activation = d * up, activated = gelu_tanh ? at::gelu(gate, "tanh") : at::silu(gate);
  Tensor d_gate = gate, d_up = up;
  at::mul_out(d_up, d, activated);
  d_gate.copy_(gelu_tanh ? at::gelu_backward(of_activation, gate, "tanh")
                         : at::silu_backward(of_activation, gate));
  return true;
}

}  // namespace hone::ops::cuda
