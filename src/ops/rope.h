// Rotary position embedding, rotate_half form (Su et al. 2021; transformers modeling_rope_utils, 5.23).
//
// Shapes: T tokens, N heads, D head_dim, R rotated columns of a head, its first (R = D but in partial rotations);
// inv_freq [R/2] fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hone::ops {

// theta^(-2i/R), i = 0 .. R/2-1, in fp32 with the same operations as transformers.
at::Tensor rope_inverse_frequencies(double theta, std::int64_t rotated);

// Llama 3's scaling (_compute_llama3_parameters): wavelengths above original/low are stretched by factor,
// those below original/high are kept, those between are blended.
struct Llama3Scaling {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  double original_max_position_embeddings = 8192;
};
at::Tensor rope_scale_llama3(const at::Tensor& inv_freq, const Llama3Scaling& scaling);

// Linear scaling (_compute_linear_scaling_rope_parameters): inv_freq / factor.
at::Tensor rope_scale_linear(const at::Tensor& inv_freq, double factor);

// YaRN (_compute_yarn_parameters): fast frequencies are kept, slow ones divided by factor, a ramp lies between.
struct YarnScaling {
  double factor = 1, original_max_position_embeddings = 0, beta_fast = 32, beta_slow = 1;
  bool truncate = true;  // the ramp's ends to whole columns
};
at::Tensor rope_yarn_frequencies(double theta, std::int64_t rotated, const YarnScaling& scaling);

// LongRoPE (_compute_longrope_parameters): each frequency divided by its factor, [R/2].
at::Tensor rope_long_frequencies(double theta, const std::vector<double>& factors);

// cos and sin [T, R] of position * inv_freq, computed in fp32, rounded to the dtype of the residual stream.
struct RopeTable {
  at::Tensor cos, sin;
};
// `factor` multiplies both: transformers' attention_scaling. So does `row_factor` [T] fp32, if defined.
RopeTable rope_table(const at::Tensor& inv_freq, const std::vector<std::int64_t>& positions,
                     at::ScalarType dtype, double factor = 1, const at::Tensor& row_factor = {});
// The same for positions [T] fp32 on the device of inv_freq.
RopeTable rope_table(const at::Tensor& inv_freq, const at::Tensor& positions, at::ScalarType dtype,
                     double factor = 1, const at::Tensor& row_factor = {});

// Llama 4's scale of queries by position (transformers' get_llama_4_attn_scale), [T] fp32 on the CPU:
// 1 + beta ln(1 + floor(position / length)).
at::Tensor query_position_scale(const std::vector<std::int64_t>& positions, double beta, std::int64_t length);

// x * cos + rotate_half(x) * sin of the first R columns of x [T, N, D], the others as they are; the result has the wider
// dtype of x and the table. Differentiable in x.
at::Tensor rope_apply(const at::Tensor& x, const RopeTable& table);

// ---- the fused forms

// Q/K norm (Qwen3; `norm_weight` [D], or undefined: none), then rotation. x and out [T, N, D] in the linears'
// dtype, rows may be strided (slices of a concatenated q|k|v buffer); out may be x. Computed in fp32, rounded
// where the autograd form rounds.
void norm_rope_into(at::Tensor out, const at::Tensor& x, const at::Tensor& norm_weight, double eps,
                    const RopeTable& table);

// In place: d holds d(out) on entry, d(x) on return. x [T, N, D] is the forward's input, needed only with a
// norm.
void norm_rope_backward(at::Tensor d, const at::Tensor& x, const at::Tensor& norm_weight, double eps,
                        const RopeTable& table);

// gradient [D] fp32 += the gradient of a trained norm_weight, from d(out) as it is before norm_rope_backward() and x,
// the forward's input. [T, N, D] both.
void norm_rope_weight_gradient(at::Tensor gradient, const at::Tensor& d, const at::Tensor& x, double eps,
                               const RopeTable& table);

}  // namespace hone::ops
