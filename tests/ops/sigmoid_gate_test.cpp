#include "ops/sigmoid_gate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "ops/cpu/instructions.h"

namespace hone::ops {
namespace sigmoid_gate_test {

struct Gated {
  at::Tensor out, d_x, d_gate;
};

// In fp64 under autograd.
Gated judge(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& d) {
  const at::Tensor a = x.to(at::kDouble).detach().requires_grad_(true);
  const at::Tensor b = gate.to(at::kDouble).detach().requires_grad_(true);
  const at::Tensor out = sigmoid_gate(a, b);
  (out * d.to(at::kDouble)).sum().backward();
  return {out.detach(), a.grad(), b.grad()};
}

Gated fused(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& d) {
  Gated g{.out = at::empty_like(x), .d_x = d.clone(), .d_gate = gate.clone()};
  sigmoid_gate_into(g.out, x, gate);
  sigmoid_gate_backward(g.d_gate, g.d_x, x);
  return g;
}

double largest(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b).abs().max().item<double>();
}

TEST(SigmoidGate, IsAutogradsInBothDtypesAtEveryLevel) {
  at::manual_seed(1);
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    // gates of both signs, and so large that exp() of them has no value
    const at::Tensor x = at::randn({9, 71}).to(dtype), d = at::randn({9, 71}).to(dtype);
    at::Tensor gate = at::randn({9, 71}) * 4;
    gate[0].fill_(200);
    gate[1].fill_(-200);
    gate = gate.to(dtype);
    const Gated exact = judge(x, gate, d);
    const double bound = dtype == at::kFloat ? 1e-6 : 1.6e-2;
    std::optional<Gated> first;
    for (const Instructions level : kAllInstructions) {
      if (!machine_has(level)) continue;
      const ForceInstructions force(level);
      const Gated found = fused(x, gate, d);
      EXPECT_LT(largest(found.out, exact.out), bound) << name_of(level);
      EXPECT_LT(largest(found.d_x, exact.d_x), bound) << name_of(level);
      EXPECT_LT(largest(found.d_gate, exact.d_gate), bound) << name_of(level);
      if (!first) first = found;
      EXPECT_TRUE(at::equal(found.out, first->out) && at::equal(found.d_gate, first->d_gate))
          << name_of(level);
      // an element of a row alone, and rows that are strided
      const auto part = [](const at::Tensor& t) { return t.slice(1, 69, 70); };
      const Gated alone = fused(part(x).contiguous(), part(gate).contiguous(), part(d).contiguous());
      EXPECT_TRUE(at::equal(alone.out, part(found.out)) && at::equal(alone.d_gate, part(found.d_gate)));
      at::Tensor out = at::empty({9, 1}, x.options());
      sigmoid_gate_into(out, part(x), part(gate));
      EXPECT_TRUE(at::equal(out, part(found.out)));
    }
  }
}

}  // namespace sigmoid_gate_test
}  // namespace hone::ops
