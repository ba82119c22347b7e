#include "ops/rope.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace hone::ops {

at::Tensor rope_inverse_frequencies(double theta, std::int64_t head_dim) {
  base::require(head_dim > 0 && head_dim % 2 == 0, "rope_inverse_frequencies", "an even head_dim");
  const at::Tensor exponent =
      at::arange(0, head_dim, 2, at::kLong).to(at::kFloat) / static_cast<double>(head_dim);
  return at::pow(at::Scalar(theta), exponent).reciprocal();
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

RopeTable rope_table(const at::Tensor& inv_freq, const std::vector<std::int64_t>& positions,
                     at::ScalarType dtype) {
  const at::Tensor position = at::tensor(positions, at::kLong).to(at::kFloat).unsqueeze(1);  // [T, 1]
  const at::Tensor angle = position * inv_freq.unsqueeze(0);                                 // [T, D/2]
  const at::Tensor both = at::cat({angle, angle}, 1);                                        // [T, D]
  return {both.cos().to(dtype), both.sin().to(dtype)};
}

at::Tensor rope_apply(const at::Tensor& x, const RopeTable& table) {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor rotated = at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
  return x * table.cos.unsqueeze(1) + rotated * table.sin.unsqueeze(1);
}

void norm_rope_into(at::Tensor out, const at::Tensor& x, const at::Tensor& norm_weight, double eps,
                    const RopeTable& table) {
  const at::ScalarType inside = at::promote_types(x.scalar_type(), at::kFloat);
  at::Tensor y = x.to(inside);
  if (norm_weight.defined()) {
    const at::Tensor scale = at::rsqrt(y.pow(2).mean(-1, /*keepdim=*/true) + eps);
    y = (norm_weight * (y * scale).to(x.scalar_type())).to(inside);
  }
  out.copy_(rope_apply(y, {table.cos.to(inside), table.sin.to(inside)}));
}

void norm_rope_backward(at::Tensor d, const at::Tensor& x, const at::Tensor& norm_weight, double eps,
                        const RopeTable& table) {
  const at::ScalarType inside = at::promote_types(d.scalar_type(), at::kFloat);
  const std::int64_t half = d.size(-1) / 2;
  const at::Tensor wide_d = d.to(inside);
  const at::Tensor turned = wide_d * table.sin.to(inside).unsqueeze(1);  // rotate_half's transpose follows
  at::Tensor g = wide_d * table.cos.to(inside).unsqueeze(1) +
                 at::cat({turned.narrow(-1, half, half), -turned.narrow(-1, 0, half)}, -1);
  if (norm_weight.defined()) {
    const at::Tensor wide = x.to(inside);
    const at::Tensor scale = at::rsqrt(wide.pow(2).mean(-1, /*keepdim=*/true) + eps);
    const at::Tensor normed = wide * scale;
    g = g * norm_weight.to(inside);
    g = scale * (g - normed * (g * normed).mean(-1, /*keepdim=*/true));
  }
  d.copy_(g);
}

}  // namespace hone::ops
