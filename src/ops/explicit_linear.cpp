// With low = s x A^T: dB += dY^T low, d_low = s dY B, dA += d_low^T x, dx = dY W + d_low A; under dropout x
// is the dropped input and d_low A passes through the mask. A frozen side adds (dY B_f) A_f to dx. DoRA's two
// differences are in dora.h.
#include "ops/explicit_linear.h"

#include <ATen/ATen.h>

#include <vector>

#include "base/error.h"
#include "ops/dora.h"
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

bool is_dora(const Linear& linear, const at::Tensor& low) {
  return low.defined() && linear.lora->magnitude.defined();
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

// `below` is x A_f^T, or undefined.
Gemm product_of(at::Tensor out, const Linear& linear, const at::Tensor& x, const at::Tensor& below,
                const at::Tensor& low, const at::Tensor& residual) {
  std::vector<GemmTerm> terms = {{x, &linear.weight, Side::kForward}};
  if (below.defined()) terms.push_back({below, &linear.below->b, Side::kForward});
  if (low.defined()) {
    terms.push_back({low, &linear.lora->b_operand(linear.weight.dtype()), Side::kForward});
  }
  return {std::move(out), std::move(terms), {.bias = linear.bias, .residual = residual}};
}

// x A_f^T of each frozen side, shared out among the threads at once; undefined where there is none.
std::vector<at::Tensor> lows_below(std::span<const LinearOutput> outputs, const at::Tensor& x) {
  std::vector<at::Tensor> lows(outputs.size());
  std::vector<Gemm> products;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Linear& linear = *outputs[i].linear;
    if (!linear.below) continue;
    base::require(!is_dora(linear, outputs[i].low), "ops::linears_into", "no frozen side below DoRA");
    lows[i] = at::empty({x.size(0), linear.below->a.out()}, x.options());
    products.push_back({lows[i], {{x, &linear.below->a, Side::kForward}}, {}});
  }
  if (!products.empty()) gemms(products);
  return lows;
}

// What dx gets through the frozen side: (dY B_f) A_f.
GemmTerm through_below(const FrozenSide& below, const at::Tensor& d_out) {
  const at::Tensor d_low = at::empty({d_out.size(0), below.a.out()}, d_out.options());
  const GemmTerm term{d_out, &below.b, Side::kBackward};
  gemm(d_low, {&term, 1});
  return {d_low, &below.a, Side::kBackward};
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
                 const PassContext& pass, const at::Tensor& residual) {
  const LinearOutput output{std::move(out), &linear, low};
  const at::Tensor below = lows_below({&output, 1}, x).front();
  if (is_dora(linear, low)) {
    dora_into(output.out, linear, x, side_input(*linear.lora, x, pass), low, residual);
    return;
  }
  const Gemm product = product_of(output.out, linear, x, below, low, residual);
  gemms({&product, 1});
}

void linears_into(std::span<const LinearOutput> outputs, const at::Tensor& x, const PassContext& pass) {
  const std::vector<at::Tensor> below = lows_below(outputs, x);
  std::vector<Gemm> products;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [out, linear, low] = outputs[i];
    if (is_dora(*linear, low)) {
      linear_into(out, *linear, x, low, pass);
    } else {
      products.push_back(product_of(out, *linear, x, below[i], low, {}));
    }
  }
  gemms(products);
}

void linears_backward(at::Tensor dx, std::span<const LinearGradient> linears, const at::Tensor& x,
                      const PassContext& pass) {
  std::vector<GemmTerm> terms;
  // What passes the mask of a side: its terms, added up before it.
  std::vector<std::pair<const LoraSide*, std::vector<GemmTerm>>> masked;
  for (const LinearGradient& gradient : linears) {
    const Linear& linear = *gradient.linear;
    const bool dora = is_dora(linear, gradient.low);
    const bool mask = gradient.low.defined() && drops(*linear.lora, pass);
    LinearGradient inner = gradient;  // of what DoRA scales; the same without it
    if (dora) {
      dora_magnitude_backward(linear, gradient.d_out, side_input(*linear.lora, x, pass), gradient.low);
      inner.d_out = dora_inner_gradient(linear, gradient.d_out);
    }
    if (dx.defined()) terms.push_back({mask ? gradient.d_out : inner.d_out, &linear.weight, Side::kBackward});
    if (dx.defined() && linear.below) terms.push_back(through_below(*linear.below, gradient.d_out));
    if (!gradient.low.defined()) continue;
    const at::Tensor d_low = side_backward(inner, x, pass);
    if (!dx.defined()) continue;
    const GemmTerm through_side{d_low, &linear.lora->a_operand(linear.weight.dtype()), Side::kBackward};
    if (!mask) {
      terms.push_back(through_side);
      continue;
    }
    masked.push_back({&*linear.lora, {through_side}});
    if (dora) masked.back().second.push_back({inner.d_out - gradient.d_out, &linear.weight, Side::kBackward});
  }
  if (!dx.defined()) return;
  gemm(dx, terms);
  at::Tensor through;
  for (const auto& [side, parts] : masked) {
    if (!through.defined()) through = at::empty_like(x);
    gemm(through, parts);
    dropout_backward_add(dx, through, pass, side->dropout_key, side->dropout);
  }
}

}  // namespace hone::ops
