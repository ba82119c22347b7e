// With low = s x A^T: dB += dY^T low, d_low = s dY B, dA += d_low^T x, dx = dY W + d_low A; under dropout x
// is the dropped input and d_low A passes through the mask.
#include "ops/explicit_linear.h"

#include <ATen/ATen.h>

#include <vector>

#include "base/error.h"
#include "ops/dropout.h"
#include "ops/gemm.h"

namespace hone::ops {
namespace {

bool drops(const LoraSide& side, const PassContext& pass) {
  return pass.training && side.dropout > 0;
}

// The input that the side saw: x, or x dropped by the module's own mask.
at::Tensor side_input(const LoraSide& side, const at::Tensor& x, const PassContext& pass) {
  if (!drops(side, pass)) return x;
  at::Tensor dropped = at::empty_like(x);
  dropout_into(dropped, x, pass, side.dropout_key, side.dropout);
  return dropped;
}

at::Tensor gradient_of(const at::Tensor& parameter) {
  base::require(parameter.grad().defined(), "ops::linears_backward",
                "a gradient buffer for every side's a and b");
  return parameter.grad();
}

// Adds dA and dB; returns d_low [T, r].
at::Tensor side_backward(const LinearGradient& gradient, const at::Tensor& x, const PassContext& pass) {
  const LoraSide& side = *gradient.linear->lora;
  const at::ScalarType dtype = gradient.linear->weight.dtype();
  add_outer(gradient_of(side.b).t(), gradient.low, gradient.d_out);
  at::Tensor d_low = at::empty_like(gradient.low);
  const GemmTerm term{gradient.d_out, &side.b_operand(dtype), Side::kBackward};
  gemm(d_low, {&term, 1}, {.scale = side.scale});
  add_outer(gradient_of(side.a), d_low, side_input(side, x, pass));
  return d_low;
}

Gemm product_of(at::Tensor out, const Linear& linear, const at::Tensor& x, const at::Tensor& low,
                const at::Tensor& residual) {
  std::vector<GemmTerm> terms = {{x, &linear.weight, Side::kForward}};
  if (low.defined()) {
    terms.push_back({low, &linear.lora->b_operand(linear.weight.dtype()), Side::kForward});
  }
  return {std::move(out), std::move(terms), {.bias = linear.bias, .residual = residual}};
}

}  // namespace

at::Tensor lora_low(const Linear& linear, const at::Tensor& x, const PassContext& pass) {
  const Linear* const one = &linear;
  return lora_lows({&one, 1}, x, pass).front();
}

std::vector<at::Tensor> lora_lows(std::span<const Linear* const> linears, const at::Tensor& x,
                                  const PassContext& pass) {
  std::vector<at::Tensor> lows(linears.size());
  std::vector<Gemm> products;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    if (!linears[i]->lora || !pass.adapters_on) continue;
    const LoraSide& side = *linears[i]->lora;
    const Weight& a = side.a_operand(linears[i]->weight.dtype());
    lows[i] = at::empty({x.size(0), a.out()}, x.options());
    products.push_back({lows[i], {{side_input(side, x, pass), &a, Side::kForward}}, {.scale = side.scale}});
    if (!drops(side, pass)) continue;
    gemms(products);  // one dropped input at a time
    products.clear();
  }
  gemms(products);
  return lows;
}

void linear_into(at::Tensor out, const Linear& linear, const at::Tensor& x, const at::Tensor& low,
                 const at::Tensor& residual) {
  const Gemm product = product_of(std::move(out), linear, x, low, residual);
  gemms({&product, 1});
}

void linears_into(std::span<const LinearOutput> outputs, const at::Tensor& x) {
  std::vector<Gemm> products;
  for (const LinearOutput& one : outputs)
    products.push_back(product_of(one.out, *one.linear, x, one.low, {}));
  gemms(products);
}

void linears_backward(at::Tensor dx, std::span<const LinearGradient> linears, const at::Tensor& x,
                      const PassContext& pass) {
  std::vector<GemmTerm> terms;
  std::vector<std::pair<const LoraSide*, at::Tensor>> masked;  // whose d_low A passes a mask of its own
  for (const LinearGradient& gradient : linears) {
    if (dx.defined()) terms.push_back({gradient.d_out, &gradient.linear->weight, Side::kBackward});
    if (!gradient.low.defined()) continue;
    const at::Tensor d_low = side_backward(gradient, x, pass);
    if (!dx.defined()) continue;
    const LoraSide& side = *gradient.linear->lora;
    if (drops(side, pass)) {
      masked.emplace_back(&side, d_low);
    } else {
      terms.push_back({d_low, &side.a_operand(gradient.linear->weight.dtype()), Side::kBackward});
    }
  }
  if (!dx.defined()) return;
  gemm(dx, terms);
  at::Tensor through;
  for (const auto& [side, d_low] : masked) {
    if (!through.defined()) through = at::empty_like(x);
    const GemmTerm term{d_low, &side->a_operand(x.scalar_type()), Side::kBackward};
    gemm(through, {&term, 1});
    dropout_backward_add(dx, through, pass, side->dropout_key, side->dropout);
  }
}

}  // namespace hone::ops
