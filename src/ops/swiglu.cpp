#include "ops/swiglu.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/cpu/row_call.h"

namespace hone::ops {
namespace {

void require_rows(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  base::require(a.dim() == 2 && a.sizes() == b.sizes() && a.sizes() == c.sizes(), "ops::swiglu",
                "three tensors [T, I]");
}

bool gates_fit(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  return rows_fit({&a, &b, &c}) && a.scalar_type() == b.scalar_type() && a.scalar_type() == c.scalar_type();
}

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

void swiglu_into(at::Tensor out, const at::Tensor& gate, const at::Tensor& up, bool gelu_tanh) {
  require_rows(out, gate, up);
  if (gates_fit(out, gate, up)) {
    const SwigluArgs args = {.gate = rows_in(gate),
                             .up = rows_in(up),
                             .out = rows_out(out),
                             .width = gate.size(1),
                             .gelu = gelu_tanh};
    const RowKernels& kernels = row_kernels();
    over_rows(gate.size(0), gate.size(1),
              [&](std::int64_t begin, std::int64_t end) { kernels.swiglu(args, begin, end); });
    return;
  }
  const at::ScalarType inside = at::promote_types(gate.scalar_type(), at::kFloat);
  out.copy_(activated(gate.to(inside), gelu_tanh) * up.to(inside));
}

void swiglu_backward(at::Tensor gate, at::Tensor up, const at::Tensor& d, bool gelu_tanh) {
  require_rows(gate, up, d);
  if (gates_fit(gate, up, d)) {
    const SwigluBackwardArgs args = {.gate = rows_out(gate),
                                     .up = rows_out(up),
                                     .d = rows_in(d),
                                     .width = gate.size(1),
                                     .gelu = gelu_tanh};
    const RowKernels& kernels = row_kernels();
    over_rows(gate.size(0), gate.size(1),
              [&](std::int64_t begin, std::int64_t end) { kernels.swiglu_backward(args, begin, end); });
    return;
  }
  const at::ScalarType inside = at::promote_types(gate.scalar_type(), at::kFloat);
  const at::Tensor g = gate.to(inside), wide_d = d.to(inside);
  const at::Tensor s = at::sigmoid(gelu_tanh ? gelu_argument(g) : g);
  const at::Tensor by_up = wide_d * g * s;  // before gate is overwritten: g may be its memory
  const at::Tensor slope = gelu_tanh ? (g * g * (3 * kGeluCubic) + 1) * (g * kGeluScale) : g;
  gate.copy_(wide_d * up.to(inside) * s * (1 + slope * (1 - s)));
  up.copy_(by_up);
}

}  // namespace hone::ops
