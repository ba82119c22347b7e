#include "ops/rope.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"
#include "ops/index_tensor.h"

namespace hone::ops {
namespace {

void require_heads(const at::Tensor& a, const at::Tensor& norm_weight, const RopeTable& table) {
  base::require(a.dim() == 3 && table.cos.dim() == 2 && table.cos.size(1) % 2 == 0 &&
                    table.cos.size(0) == a.size(0) && table.cos.size(1) <= a.size(2) &&
                    table.sin.sizes() == table.cos.sizes() &&
                    (!norm_weight.defined() || (norm_weight.dim() == 1 && norm_weight.size(0) == a.size(2))),
                "ops::norm_rope", "[T, N, D], norm_weight [D], table [T, R] with an even R, at most D");
}

// theta^(2i/R) in fp32, [R/2].
at::Tensor powers_of(double theta, std::int64_t rotated) {
  base::require(rotated > 0 && rotated % 2 == 0, "ops::rope", "an even number of rotated columns");
  const at::Tensor exponent =
      at::arange(0, rotated, 2, at::kLong).to(at::kFloat) / static_cast<double>(rotated);
  return at::pow(at::Scalar(theta), exponent);
}

}  // namespace

at::Tensor rope_inverse_frequencies(double theta, std::int64_t rotated) {
  return powers_of(theta, rotated).reciprocal();
}

at::Tensor rope_scale_llama3(const at::Tensor& inv_freq, const Llama3Scaling& s) {
  const double longest = s.original_max_position_embeddings / s.low_freq_factor;
  const double shortest = s.original_max_position_embeddings / s.high_freq_factor;
  const at::Tensor wavelength = inv_freq.reciprocal() * (2 * std::numbers::pi);
  const at::Tensor scaled = at::where(wavelength > longest, inv_freq / s.factor, inv_freq);
  const at::Tensor smooth =
      (wavelength.reciprocal() * s.original_max_position_embeddings - s.low_freq_factor) /
      (s.high_freq_factor - s.low_freq_factor);
  const at::Tensor blended = (1 - smooth) * scaled / s.factor + smooth * scaled;
  const at::Tensor medium = at::logical_and(wavelength >= shortest, wavelength <= longest);
  return at::where(medium, blended, scaled);
}

at::Tensor rope_scale_linear(const at::Tensor& inv_freq, double factor) {
  return inv_freq / factor;
}

at::Tensor rope_yarn_frequencies(double theta, std::int64_t rotated, const YarnScaling& s) {
  const auto width = static_cast<double>(rotated);
  const auto column = [&](double turns) {  // where a frequency turns so often within the original length
    return width * std::log(s.original_max_position_embeddings / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = column(s.beta_fast), high = column(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high) high += 0.001;
  const at::Tensor kept = powers_of(theta, rotated).reciprocal();
  const at::Tensor stretched = (powers_of(theta, rotated) * s.factor).reciprocal();
  const at::Tensor ramp = ((at::arange(rotated / 2, at::kFloat) - low) / (high - low)).clamp(0, 1);
  const at::Tensor share = 1 - ramp;
  return stretched * (1 - share) + kept * share;
}

at::Tensor rope_long_frequencies(double theta, const std::vector<double>& factors) {
  const at::Tensor divisors = at::tensor(factors, at::kDouble).to(at::kFloat);
  return (divisors * powers_of(theta, 2 * divisors.numel())).reciprocal();
}

at::Tensor query_position_scale(const std::vector<std::int64_t>& positions, double beta,
                                std::int64_t length) {
  const at::Tensor rounds = at::tensor(positions, at::kLong).to(at::kFloat).div(length).floor();
  return (rounds + 1).log() * beta + 1;
}

RopeTable rope_table(const at::Tensor& inv_freq, const std::vector<std::int64_t>& positions,
                     at::ScalarType dtype, double factor, const at::Tensor& row_factor) {
  const at::Tensor sent = staged(at::tensor(positions, at::kLong).to(at::kFloat), inv_freq.device());
  return rope_table(inv_freq, sent, dtype, factor, row_factor);
}

RopeTable rope_table(const at::Tensor& inv_freq, const at::Tensor& positions, at::ScalarType dtype,
                     double factor, const at::Tensor& row_factor) {
  const at::Tensor angle = positions.unsqueeze(1) * inv_freq.unsqueeze(0);  // [T, R/2]
  const at::Tensor both = at::cat({angle, angle}, 1);                       // [T, R]
  at::Tensor cos = both.cos(), sin = both.sin();
  if (factor != 1) {
    cos.mul_(factor);
    sin.mul_(factor);
  }
  if (row_factor.defined()) {
    const at::Tensor column = staged(row_factor, cos.device()).unsqueeze(1);
    cos.mul_(column);
    sin.mul_(column);
  }
  return {cos.to(dtype), sin.to(dtype)};
}

void norm_rope_into(at::Tensor out, const at::Tensor& x, const at::Tensor& norm_weight, double eps,
                    const RopeTable& table) {
  require_heads(x, norm_weight, table);
  base::require(out.sizes() == x.sizes(), "ops::norm_rope_into", "out of x's shape");
  backend::run(x.device(), &backend::Operators::norm_rope, reference::norm_rope, out, x, norm_weight, eps,
               table);
}

void norm_rope_backward(at::Tensor d, const at::Tensor& x, const at::Tensor& norm_weight, double eps,
                        const RopeTable& table) {
  const at::Tensor& input = norm_weight.defined() ? x : d;  // without a norm x may be undefined
  require_heads(d, norm_weight, table);
  base::require(input.sizes() == d.sizes(), "ops::norm_rope_backward", "x of d's shape");
  backend::run(d.device(), &backend::Operators::norm_rope_backward, reference::norm_rope_backward, d, input,
               norm_weight, eps, table);
}

}  // namespace hone::ops
