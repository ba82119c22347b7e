#include "ops/dora.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"
#include "ops/gemm.h"

namespace hone::ops {
namespace {

at::Tensor factor(const Linear& linear, const LoraWeights& side) {
  return side.magnitude.detach() / dora_norm(linear, side);
}

// x W^T + lora_a_out B^T in fp32; `lora_a_out` may be undefined.
at::Tensor product(const Linear& linear, const LoraWeights& side, const at::Tensor& x,
                   const at::Tensor& lora_a_out) {
  at::Tensor out = at::empty({x.size(0), linear.weight.out()}, x.options().dtype(at::kFloat));
  std::vector<GemmTerm> terms = {{x, &linear.weight, GemmDirection::kForward}};
  if (lora_a_out.defined()) {
    terms.push_back({lora_a_out, &side.b_operand(linear.weight.dtype()), GemmDirection::kForward});
  }
  gemm(out, terms);
  return out;
}

}  // namespace

at::Tensor dora_norm(const Linear& linear, const LoraWeights& side) {
  LoraWeights::Norm& kept = side.norm_;
  const std::int64_t a_version = side.a._version(), b_version = side.b._version();
  if (kept.values.defined() && kept.a.is_same(side.a) && kept.b.is_same(side.b) &&
      kept.a_version == a_version && kept.b_version == b_version) {
    return kept.values;
  }
  const at::NoGradGuard no_grad;
  const at::Tensor dense = linear.weight.dense();
  const at::Tensor a = side.a.detach(), b = side.b.detach();
  at::Tensor values = at::empty({dense.size(0)}, a.options());
  for (std::int64_t begin = 0; begin < dense.size(0); begin += kDoraNormRows) {
    const std::int64_t rows = std::min(kDoraNormRows, dense.size(0) - begin);
    const at::Tensor sum =
        at::addmm(dense.narrow(0, begin, rows).to(at::kFloat), b.narrow(0, begin, rows), a, 1, side.scale);
    values.narrow(0, begin, rows).copy_(at::linalg_vector_norm(sum, 2, at::IntArrayRef{1}));
  }
  kept = {.values = values, .a = side.a, .b = side.b, .a_version = a_version, .b_version = b_version};
  return values;
}

at::Tensor dora_forward(const Linear& linear, const at::Tensor& y, const at::Tensor& input,
                        const PassContext& pass) {
  const LoraWeights& side = *linear.lora;
  const at::ScalarType dtype = linear.weight.dtype();
  const at::Tensor scaled = side.magnitude / dora_norm(linear, side);  // [out] fp32
  const at::Tensor lora_a_out = at::linear(input, side.a.to(dtype));
  const at::Tensor lora = at::linear(lora_a_out, side.b.to(dtype)).to(at::kFloat) * side.scale;
  const at::Tensor wide = y.to(at::kFloat);
  const bool dropping = pass.training && side.dropout > 0;
  const at::Tensor base = dropping                ? at::linear(input, linear.weight.dense()).to(at::kFloat)
                          : linear.bias.defined() ? wide - bias_of(linear, pass)
                                                  : wide;
  return (wide + (scaled - 1) * base + scaled * lora).to(y.scalar_type());
}

void dora_into(at::Tensor out, const Linear& linear, const LoraWeights& side, const at::Tensor& x,
               const at::Tensor& dropped, const at::Tensor& lora_a_out, const at::Tensor& residual) {
  at::Tensor sum = product(linear, side, dropped, lora_a_out).mul_(factor(linear, side));
  if (!dropped.is_same(x)) sum.add_(product(linear, side, x - dropped, {}));
  if (linear.bias.defined()) sum.add_(bias_of(linear, {}));  // DoRA is on: so is a trained bias
  if (residual.defined()) sum.add_(residual);
  out.copy_(sum);
}

at::Tensor dora_inner_gradient(const Linear& linear, const at::Tensor& d_out) {
  return (d_out * factor(linear, *linear.lora)).to(d_out.scalar_type());
}

void dora_magnitude_backward(const Linear& linear, const at::Tensor& d_out, const at::Tensor& dropped,
                             const at::Tensor& lora_a_out) {
  const at::Tensor& magnitude = linear.lora->magnitude;
  base::require(magnitude.grad().defined(), "ops::linears_backward",
                "a gradient buffer for every side's magnitude");
  const at::Tensor inner = product(linear, *linear.lora, dropped, lora_a_out).mul_(d_out);
  magnitude.mutable_grad().add_(inner.sum(0).div_(dora_norm(linear, *linear.lora)));
}

}  // namespace hone::ops
