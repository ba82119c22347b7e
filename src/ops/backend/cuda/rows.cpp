#include <ATen/ATen.h>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/own_kernels.h"

namespace hone::ops::cuda {
namespace {

bool is_narrow(const Tensor& x) {
  return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf;
}

// A norm and its weight as the kernel takes them.
bool is_normed(const Tensor& x, const Tensor& weight) {
  return weight.scalar_type() == x.scalar_type() && x.scalar_type() != at::kDouble;
}

// ---- the kernels of our own; false: there is none for these tensors

bool own_rms_norm(const Tensor& out, const Tensor& x, const Tensor& weight, double eps) {
  const kernels::Kernels* const own = own_kernels(x.device());
  if (own == nullptr) return false;
  const auto to = rows_of(out), from = rows_of(x);
  const auto by = vector_of(weight);
  if (!to || !from || !by) return false;
  return started(own->rms_norm({.out = *to,
                                .x = *from,
                                .weight = *by,
                                .tokens = x.size(0),
                                .width = x.size(1),
                                .eps = static_cast<float>(eps)},
                               stream_of(x.device())),
                 "rms_norm");
}

bool own_rms_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight,
                           double eps) {
  const kernels::Kernels* const own = own_kernels(x.device());
  if (own == nullptr || dx.scalar_type() != x.scalar_type()) return false;
  const auto to = rows_of(dx), of = rows_of(dy), from = rows_of(x);
  const auto by = vector_of(weight);
  if (!to || !of || !from || !by) return false;
  return started(own->rms_norm_backward({.dx = *to,
                                         .dy = *of,
                                         .x = *from,
                                         .weight = *by,
                                         .tokens = x.size(0),
                                         .width = x.size(1),
                                         .eps = static_cast<float>(eps)},
                                        stream_of(x.device())),
                 "rms_norm_backward");
}

bool own_swiglu(const Tensor& out, const Tensor& gate, const Tensor& up, bool gelu_tanh) {
  const kernels::Kernels* const own = own_kernels(gate.device());
  if (own == nullptr || gate.scalar_type() != up.scalar_type()) return false;
  const auto to = rows_of(out), g = rows_of(gate), u = rows_of(up);
  if (!to || !g || !u) return false;
  return started(own->swiglu({.out = *to,
                              .gate = *g,
                              .up = *u,
                              .tokens = gate.size(0),
                              .width = gate.size(1),
                              .gelu_tanh = gelu_tanh},
                             stream_of(gate.device())),
                 "swiglu");
}

bool own_swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& d, bool gelu_tanh) {
  const kernels::Kernels* const own = own_kernels(gate.device());
  if (own == nullptr || gate.scalar_type() != up.scalar_type()) return false;
  const auto g = rows_of(gate), u = rows_of(up), of = rows_of(d);
  if (!g || !u || !of) return false;
  return started(own->swiglu_backward({.gate = *g,
                                       .up = *u,
                                       .d = *of,
                                       .tokens = gate.size(0),
                                       .width = gate.size(1),
                                       .gelu_tanh = gelu_tanh},
                                      stream_of(gate.device())),
                 "swiglu_backward");
}

}  // namespace

// Without a kernel of our own the product with the weight is rounded once; the definition rounds the normed row before it too.
bool rms_norm(const Tensor& out, const Tensor& x, const Tensor& weight, double eps) {
  if (own_rms_norm(out, x, weight, eps)) return true;
  if (!is_normed(x, weight)) return false;
  out.copy_(std::get<0>(at::_fused_rms_norm(x, weight.sizes(), weight, eps)));
  return true;
}

// In bf16 libtorch's own gradient of the norm is rounded before it is added to dx.
bool rms_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight,
                       double eps) {
  if (own_rms_norm_backward(dx, dy, x, weight, eps)) return true;
  if (!is_normed(x, weight)) return false;
  const Tensor inverse = std::get<1>(at::_fused_rms_norm(x, weight.sizes(), weight, eps));
  Tensor(dx).add_(std::get<0>(at::_fused_rms_norm_backward(dy.to(x.scalar_type()), x, weight.sizes(), inverse,
                                                           weight, {true, false})));
  return true;
}

// Without a kernel of our own as transformers computes it: the activation is rounded to bf16 before the product.
bool swiglu(const Tensor& out, const Tensor& gate, const Tensor& up, bool gelu_tanh) {
  if (own_swiglu(out, gate, up, gelu_tanh)) return true;
  if (!is_narrow(gate)) return false;
  Tensor into = out;
  at::mul_out(into, gelu_tanh ? at::gelu(gate, "tanh") : at::silu(gate), up);
  return true;
}

bool swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& d, bool gelu_tanh) {
  if (own_swiglu_backward(gate, up, d, gelu_tanh)) return true;
  if (!is_narrow(gate)) return false;
  const Tensor of_activation = d * up, activated = gelu_tanh ? at::gelu(gate, "tanh") : at::silu(gate);
  Tensor d_gate = gate, d_up = up;
  at::mul_out(d_up, d, activated);
  d_gate.copy_(gelu_tanh ? at::gelu_backward(of_activation, gate, "tanh")
                         : at::silu_backward(of_activation, gate));
  return true;
}

}  // namespace hone::ops::cuda
