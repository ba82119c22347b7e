#include "ops/swiglu.h"

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

void require_gates(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  base::require(a.dim() == 2 && a.sizes() == b.sizes() && a.sizes() == c.sizes(), "ops::swiglu",
                "three tensors [T, I]");
}

}  // namespace

void swiglu_into(at::Tensor out, const at::Tensor& gate, const at::Tensor& up, bool gelu_tanh) {
  require_gates(out, gate, up);
  backend::run(gate.device(), &backend::Operators::swiglu, reference::swiglu, out, gate, up, gelu_tanh);
}

void swiglu_backward(at::Tensor gate, at::Tensor up, const at::Tensor& d, bool gelu_tanh) {
  require_gates(gate, up, d);
  backend::run(gate.device(), &backend::Operators::swiglu_backward, reference::swiglu_backward, gate, up, d,
               gelu_tanh);
}

}  // namespace hone::ops
