#include "ops/sigmoid_gate.h"

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

void require_alike(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  base::require(a.dim() == 2 && a.sizes() == b.sizes() && a.sizes() == c.sizes(), "ops::sigmoid_gate",
                "three tensors [T, W]");
}

}  // namespace

void sigmoid_gate_into(at::Tensor out, const at::Tensor& x, const at::Tensor& gate) {
  require_alike(out, x, gate);
  backend::run(x.device(), &backend::Operators::sigmoid_gate, reference::sigmoid_gate, out, x, gate);
}

void sigmoid_gate_backward(at::Tensor gate, at::Tensor d, const at::Tensor& x) {
  require_alike(gate, d, x);
  backend::run(x.device(), &backend::Operators::sigmoid_gate_backward, reference::sigmoid_gate_backward, gate,
               d, x);
}

}  // namespace hone::ops
