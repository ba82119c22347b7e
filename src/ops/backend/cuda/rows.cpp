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

// By a kernel of our own; false: there is none for these tensors. `cast` may be undefined.
bool run_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight, double eps,
                       const Tensor& cast) {
  return run_own(x.device(), &kernels::Kernels::rms_norm_backward, "rms_norm_backward",
                 [&](KernelViews& of) -> kernels::RmsNormBackward {
                   of.need(dx.scalar_type() == x.scalar_type());
                   return {.dx = of.rows(dx),
                           .dy = of.rows(dy),
                           .x = of.rows(x),
                           .weight = of.vector(weight),
                           .tokens = x.size(0),
                           .width = x.size(1),
                           .eps = static_cast<float>(eps),
                           .cast = cast.defined() ? of.rows(cast) : kernels::Rows()};
                 });
}

}  // namespace

// Without a kernel of our own the product with the weight is rounded once; the definition rounds the normed row before it too.
bool rms_norm(const Tensor& out, const Tensor& x, const Tensor& weight, double eps) {
  const auto own = [&](KernelViews& of) -> kernels::RmsNorm {
    return {.out = of.rows(out),
            .x = of.rows(x),
            .weight = of.vector(weight),
            .tokens = x.size(0),
            .width = x.size(1),
            .eps = static_cast<float>(eps)};
  };
  if (run_own(x.device(), &kernels::Kernels::rms_norm, "rms_norm", own)) return true;
  if (!is_normed(x, weight)) return false;
  out.copy_(std::get<0>(at::_fused_rms_norm(x, weight.sizes(), weight, eps)));
  return true;
}

// In bf16 libtorch's own gradient of the norm is rounded before it is added to dx.
bool rms_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight,
                       double eps) {
  if (run_norm_backward(dx, dy, x, weight, eps, {})) return true;
  if (!is_normed(x, weight)) return false;
  const Tensor inverse = std::get<1>(at::_fused_rms_norm(x, weight.sizes(), weight, eps));
  Tensor(dx).add_(std::get<0>(at::_fused_rms_norm_backward(dy.to(x.scalar_type()), x, weight.sizes(), inverse,
                                                           weight, {true, false})));
  return true;
}

bool rms_norm_backward_cast(const Tensor& cast, const Tensor& dx, const Tensor& dy, const Tensor& x,
                            const Tensor& weight, double eps) {
  return cast.scalar_type() == at::kBFloat16 && run_norm_backward(dx, dy, x, weight, eps, cast);
}

// Without a kernel of our own as transformers computes it: the activation is rounded to bf16 before the product.
bool swiglu(const Tensor& out, const Tensor& gate, const Tensor& up, bool gelu_tanh) {
  const auto own = [&](KernelViews& of) -> kernels::Swiglu {
    of.need(gate.scalar_type() == up.scalar_type());
    return {.out = of.rows(out),
            .gate = of.rows(gate),
            .up = of.rows(up),
            .tokens = gate.size(0),
            .width = gate.size(1),
            .gelu_tanh = gelu_tanh};
  };
  if (run_own(gate.device(), &kernels::Kernels::swiglu, "swiglu", own)) return true;
  if (!is_narrow(gate)) return false;
  Tensor into = out;
  at::mul_out(into, gelu_tanh ? at::gelu(gate, "tanh") : at::silu(gate), up);
  return true;
}

bool swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& d, bool gelu_tanh) {
  const auto own = [&](KernelViews& of) -> kernels::SwigluBackward {
    of.need(gate.scalar_type() == up.scalar_type());
    return {.gate = of.rows(gate),
            .up = of.rows(up),
            .d = of.rows(d),
            .tokens = gate.size(0),
            .width = gate.size(1),
            .gelu_tanh = gelu_tanh};
  };
  if (run_own(gate.device(), &kernels::Kernels::swiglu_backward, "swiglu_backward", own)) return true;
  if (!is_narrow(gate)) return false;
  const Tensor of_activation = d * up, activated = gelu_tanh ? at::gelu(gate, "tanh") : at::silu(gate);
  Tensor d_up = up;
  at::mul_out(d_up, d, activated);
  gate.copy_(gelu_tanh ? at::gelu_backward(of_activation, gate, "tanh")
                       : at::silu_backward(of_activation, gate));
  return true;
}

}  // namespace hone::ops::cuda
