#include "ops/sigmoid_gate.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/cpu/row_call.h"

namespace hone::ops {
namespace {

// Three tensors [T, W]; whether the kernels take them.
bool rows_fit_gate(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  base::require(a.dim() == 2 && a.sizes() == b.sizes() && a.sizes() == c.sizes(), "ops::sigmoid_gate",
                "three tensors [T, W]");
  return rows_fit({&a, &b, &c}) && a.scalar_type() == b.scalar_type() && a.scalar_type() == c.scalar_type();
}

}  // namespace

at::Tensor sigmoid_gate(const at::Tensor& x, const at::Tensor& gate) {
  return x * at::sigmoid(gate);
}

void sigmoid_gate_into(at::Tensor out, const at::Tensor& x, const at::Tensor& gate) {
  if (!rows_fit_gate(out, x, gate)) {
    const at::ScalarType inside = at::promote_types(x.scalar_type(), at::kFloat);
    out.copy_(x.to(inside) * at::sigmoid(gate.to(inside)));
    return;
  }
  const GateArgs args = {.x = rows_in(x), .gate = rows_in(gate), .out = rows_out(out), .width = x.size(1)};
  const RowKernels& kernels = row_kernels();
  over_rows(x.size(0), x.size(1),
            [&](std::int64_t begin, std::int64_t end) { kernels.gate(args, begin, end); });
}

void sigmoid_gate_backward(at::Tensor gate, at::Tensor d, const at::Tensor& x) {
  if (!rows_fit_gate(gate, d, x)) {
    const at::ScalarType inside = at::promote_types(x.scalar_type(), at::kFloat);
    const at::Tensor s = at::sigmoid(gate.to(inside)), by_x = d.to(inside) * s;
    gate.copy_(by_x * x.to(inside) * (1 - s));
    d.copy_(by_x);
    return;
  }
  const GateBackwardArgs args = {
      .x = rows_in(x), .gate = rows_out(gate), .d = rows_out(d), .width = x.size(1)};
  const RowKernels& kernels = row_kernels();
  over_rows(x.size(0), x.size(1),
            [&](std::int64_t begin, std::int64_t end) { kernels.gate_backward(args, begin, end); });
}

}  // namespace hone::ops
