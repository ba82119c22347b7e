// With lora_a_out = s x A^T: dB += dY^T lora_a_out, d_lora_a_out = s dY B, dA += d_lora_a_out^T x, dx = dY W
// + d_lora_a_out A; under dropout x is the dropped input and d_lora_a_out A passes through the mask. A frozen
// side adds (dY B_f) A_f to dx. DoRA's two differences are in dora.h. A weight that is trained in full gets dY^T x.
#include "ops/fused_linear.h"

#include <ATen/ATen.h>

#include <vector>

#include "base/error.h"
#include "ops/dora.h"
#include "ops/dropout.h"
#include "ops/gemm.h"

namespace hone::ops {
namespace {

bool drops(const LoraWeights& side, const PassContext& pass) {
  return pass.training && side.dropout > 0;
}

// The input that the side saw: x, or x dropped by the module's own mask.
at::Tensor side_input(const LoraWeights& side, const at::Tensor& x, const PassContext& pass) {
  if (!drops(side, pass)) return x;
  at::Tensor dropped = at::empty_like(x);
  dropout_into(dropped, x, pass, side.dropout_key, side.dropout);
  return dropped;
}

bool is_dora(const Linear& linear, const at::Tensor& lora_a_out) {
  return lora_a_out.defined() && linear.lora->magnitude.defined();
}

at::Tensor gradient_of(const at::Tensor& parameter) {
  base::require(parameter.grad().defined(), "ops::linears_backward",
                "a gradient buffer for everything that is trained");
  return parameter.grad();
}

// Adds what the trained weight and bias get: dY^T x and the sum of dY.
void whole_backward(const Linear& linear, const at::Tensor& d_out, const at::Tensor& x) {
  if (linear.trained_weight.defined()) add_weight_gradient(gradient_of(linear.trained_weight), d_out, x);
  if (linear.trained_bias.defined()) gradient_of(linear.trained_bias).add_(d_out.sum(0, false, at::kFloat));
}

// Adds dA and dB; returns d_lora_a_out [T, r].
at::Tensor side_backward(const LinearGradient& gradient, const at::Tensor& x, const PassContext& pass) {
  const LoraWeights& side = *gradient.linear->lora;
  const at::ScalarType dtype = gradient.linear->weight.dtype();
  add_outer(gradient_of(side.b).t(), gradient.lora_a_out, gradient.d_out);
  at::Tensor d_lora_a_out = at::empty_like(gradient.lora_a_out);
  const GemmTerm term{gradient.d_out, &side.b_operand(dtype), GemmDirection::kBackward};
  gemm(d_lora_a_out, {&term, 1}, {.scale = side.scale});
  add_outer(gradient_of(side.a), d_lora_a_out, side_input(side, x, pass));
  return d_lora_a_out;
}

// `below` is x A_f^T, or undefined.
Gemm product_of(at::Tensor out, const Linear& linear, const at::Tensor& x, const at::Tensor& frozen,
                const at::Tensor& lora_a_out, const PassContext& pass, const at::Tensor& residual) {
  std::vector<GemmTerm> terms = {{x, &weight_of(linear, pass), GemmDirection::kForward}};
  if (frozen.defined()) terms.push_back({frozen, &linear.frozen_lora->b, GemmDirection::kForward});
  if (lora_a_out.defined()) {
    terms.push_back({lora_a_out, &linear.lora->b_operand(linear.weight.dtype()), GemmDirection::kForward});
  }
  return {std::move(out), std::move(terms), {.bias = bias_of(linear, pass), .residual = residual}};
}

// x A_f^T of each frozen side, shared out among the threads at once; undefined where there is none.
std::vector<at::Tensor> frozen_a_outs(std::span<const LinearOutput> outputs, const at::Tensor& x) {
  std::vector<at::Tensor> lora_a_outs(outputs.size());
  std::vector<Gemm> products;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Linear& linear = *outputs[i].linear;
    if (!linear.frozen_lora) continue;
    base::require(!is_dora(linear, outputs[i].lora_a_out), "ops::linears_into", "no frozen side below DoRA");
    lora_a_outs[i] = at::empty({x.size(0), linear.frozen_lora->a.out()}, x.options());
    products.push_back({lora_a_outs[i], {{x, &linear.frozen_lora->a, GemmDirection::kForward}}, {}});
  }
  if (!products.empty()) gemms(products);
  return lora_a_outs;
}

// What dx gets through the frozen side: (dY B_f) A_f.
GemmTerm through_frozen(const FrozenLora& frozen, const at::Tensor& d_out) {
  const at::Tensor d_lora_a_out = at::empty({d_out.size(0), frozen.a.out()}, d_out.options());
  const GemmTerm term{d_out, &frozen.b, GemmDirection::kBackward};
  gemm(d_lora_a_out, {&term, 1});
  return {d_lora_a_out, &frozen.a, GemmDirection::kBackward};
}

}  // namespace

at::Tensor lora_a_forward(const Linear& linear, const at::Tensor& x, const PassContext& pass) {
  const Linear* const one = &linear;
  return lora_a_forwards({&one, 1}, x, pass).front();
}

std::vector<at::Tensor> lora_a_forwards(std::span<const Linear* const> linears, const at::Tensor& x,
                                        const PassContext& pass) {
  std::vector<at::Tensor> lora_a_outs(linears.size());
  std::vector<Gemm> products;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    if (!linears[i]->lora || !pass.adapters_on) continue;
    const LoraWeights& side = *linears[i]->lora;
    const Weight& a = side.a_operand(linears[i]->weight.dtype());
    lora_a_outs[i] = at::empty({x.size(0), a.out()}, x.options());
    products.push_back(
        {lora_a_outs[i], {{side_input(side, x, pass), &a, GemmDirection::kForward}}, {.scale = side.scale}});
    if (!drops(side, pass)) continue;
    gemms(products);  // one dropped input at a time
    products.clear();
  }
  gemms(products);
  return lora_a_outs;
}

void linear_into(at::Tensor out, const Linear& linear, const at::Tensor& x, const at::Tensor& lora_a_out,
                 const PassContext& pass, const at::Tensor& residual) {
  const LinearOutput output{std::move(out), &linear, lora_a_out};
  const at::Tensor frozen = frozen_a_outs({&output, 1}, x).front();
  if (is_dora(linear, lora_a_out)) {
    dora_into(output.out, linear, x, side_input(*linear.lora, x, pass), lora_a_out, residual);
    return;
  }
  const Gemm product = product_of(output.out, linear, x, frozen, lora_a_out, pass, residual);
  gemms({&product, 1});
}

void linears_into(std::span<const LinearOutput> outputs, const at::Tensor& x, const PassContext& pass) {
  const std::vector<at::Tensor> frozen = frozen_a_outs(outputs, x);
  std::vector<Gemm> products;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [out, linear, lora_a_out] = outputs[i];
    if (is_dora(*linear, lora_a_out)) {
      linear_into(out, *linear, x, lora_a_out, pass);
    } else {
      products.push_back(product_of(out, *linear, x, frozen[i], lora_a_out, pass, {}));
    }
  }
  gemms(products);
}

void linears_backward(at::Tensor dx, std::span<const LinearGradient> linears, const at::Tensor& x,
                      const PassContext& pass) {
  std::vector<GemmTerm> terms;
  // What passes the mask of a side: its terms, added up before it.
  std::vector<std::pair<const LoraWeights*, std::vector<GemmTerm>>> masked;
  for (const LinearGradient& gradient : linears) {
    const Linear& linear = *gradient.linear;
    const bool dora = is_dora(linear, gradient.lora_a_out);
    const bool mask = gradient.lora_a_out.defined() && drops(*linear.lora, pass);
    LinearGradient inner = gradient;  // of what DoRA scales; the same without it
    if (dora) {
      dora_magnitude_backward(linear, gradient.d_out, side_input(*linear.lora, x, pass), gradient.lora_a_out);
      inner.d_out = dora_inner_gradient(linear, gradient.d_out);
    }
    if (dx.defined())
      terms.push_back(
          {mask ? gradient.d_out : inner.d_out, &weight_of(linear, pass), GemmDirection::kBackward});
    if (dx.defined() && linear.frozen_lora)
      terms.push_back(through_frozen(*linear.frozen_lora, gradient.d_out));
    whole_backward(linear, gradient.d_out, x);
    if (!gradient.lora_a_out.defined()) continue;
    const at::Tensor d_lora_a_out = side_backward(inner, x, pass);
    if (!dx.defined()) continue;
    const GemmTerm through_side{d_lora_a_out, &linear.lora->a_operand(linear.weight.dtype()),
                                GemmDirection::kBackward};
    if (!mask) {
      terms.push_back(through_side);
      continue;
    }
    masked.push_back({&*linear.lora, {through_side}});
    if (dora)
      masked.back().second.push_back(
          {inner.d_out - gradient.d_out, &linear.weight, GemmDirection::kBackward});
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
