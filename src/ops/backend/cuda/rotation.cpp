// Norms of heads and rotations. cos and sin are the same in both halves of a row (ops::rope_table), so that x cos and
// x sin are all that is multiplied; each half of the result is a sum of one half of each, in fp32, rounded once.
#include <ATen/ATen.h>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/own_kernels.h"

namespace hone::ops::cuda {
namespace {

struct Halves {
  Tensor low, high;  // [T, N, R / 2]
};

Halves halves_of(const Tensor& x, std::int64_t half) {
  return {x.narrow(-1, 0, half), x.narrow(-1, half, half)};
}

bool is_rotated(const Tensor& x) {
  return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf;
}

// The first R columns of x turned; `sign` 1 forward, -1 back. Neither is read after `into`, which may be x, is written.
void turn(const Tensor& into, const Tensor& x, const RopeTable& table, int sign) {
  const std::int64_t width = table.cos.size(1), half = width / 2;
  const bool is_wide = table.cos.scalar_type() == at::kFloat;  // its products are fp32 then
  const Tensor first = is_wide ? x.narrow(-1, 0, width) : x.narrow(-1, 0, width).to(at::kFloat);
  const Halves by_cos = halves_of(first * table.cos.unsqueeze(1), half),
               by_sin = halves_of(first * table.sin.unsqueeze(1), half);
  Halves out = halves_of(into, half);
  at::sub_out(out.low, by_cos.low, by_sin.high, sign);
  at::add_out(out.high, by_cos.high, by_sin.low, sign);
}

// In the wider dtype of both, without the rounding of the normed row that the definition has.
Tensor normed(const Tensor& x, const Tensor& weight, double eps) {
  return std::get<0>(at::_fused_rms_norm(x.to(weight.scalar_type()), weight.sizes(), weight, eps));
}

// By a kernel of our own; false: there is none for these tensors.
bool run_own_norm_rope(int (*kernels::Kernels::*kernel)(const kernels::NormRope&, void*), const char* name,
                       const Tensor& out, const Tensor& x, const Tensor& norm_weight, double eps,
                       const RopeTable& table) {
  return run_own(out.device(), kernel, name, [&](KernelViews& of) -> kernels::NormRope {
    of.need(table.sin.scalar_type() == table.cos.scalar_type());
    of.need(!norm_weight.defined() || norm_weight.scalar_type() == table.cos.scalar_type());
    return {.out = of.heads(out),
            .x = of.heads(x),
            .weight = of.vector(norm_weight),
            .cos = of.vector(table.cos),
            .sin = of.vector(table.sin),
            .tokens = x.size(0),
            .heads = x.size(1),
            .dim = x.size(2),
            .rotated = table.cos.size(1),
            .eps = static_cast<float>(eps)};
  });
}

}  // namespace

bool norm_rope(const Tensor& out, const Tensor& x, const Tensor& norm_weight, double eps,
               const RopeTable& table) {
  if (run_own_norm_rope(&kernels::Kernels::norm_rope, "norm_rope", out, x, norm_weight, eps, table))
    return true;
  if (!is_rotated(x) || !is_rotated(out)) return false;
  const Tensor y = norm_weight.defined() ? normed(x, norm_weight, eps) : x;
  const std::int64_t width = table.cos.size(1), rest = x.size(-1) - width;
  if (width > 0) turn(out, y, table, 1);
  if (rest > 0 && !y.is_same(out)) out.narrow(-1, width, rest).copy_(y.narrow(-1, width, rest));
  return true;
}

bool norm_rope_backward(const Tensor& d, const Tensor& x, const Tensor& norm_weight, double eps,
                        const RopeTable& table) {
  const Tensor& input = norm_weight.defined() ? x : d;
  if (run_own_norm_rope(&kernels::Kernels::norm_rope_backward, "norm_rope_backward", d, input, norm_weight,
                        eps, table))
    return true;
  if (!is_rotated(d)) return false;
  const std::int64_t width = table.cos.size(1);
  if (!norm_weight.defined()) {
    if (width > 0) turn(d, d, table, -1);
    return true;
  }
  const Tensor g = d.to(at::kFloat), wide = x.to(at::kFloat), weight = norm_weight.to(at::kFloat);
  if (width > 0) turn(g, g, table, -1);
  const Tensor inverse = std::get<1>(at::_fused_rms_norm(wide, weight.sizes(), weight, eps));
  d.copy_(std::get<0>(at::_fused_rms_norm_backward(g, wide, weight.sizes(), inverse, weight, {true, false})));
  return true;
}

}  // namespace hone::ops::cuda
