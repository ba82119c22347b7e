// DoRA: the direction of W + s B A, and a trained magnitude m for each output. Formula: PEFT 0.21.2
// lora/dora.py DoraLinearLayer and variants.py DoraLinearVariant; n = ||W + s B A|| of each row is treated as
// a constant (section 4.3 of the paper).
//
//   g = m / n                                                       [out]
//   y = g (x W^T + s x A^T B^T) + b                                 without dropout
//   y = x W^T + b + (g - 1) (x' W^T) + g s x' A^T B^T               x' = dropout(x), read by both products
//
// Cost: one more product per call than LoRA, and one pass over W when A or B have changed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/linear.h"

namespace hone::ops {

// Rows of W that dora_norm() widens at a time; it holds them twice in fp32.
inline constexpr std::int64_t kDoraNormRows = 2048;

// n [out] fp32, no gradient, of a linear with this side; cached in it until A or B change. W is taken as the
// GEMM reads it (bf16 under autocast).
at::Tensor dora_norm(const Linear& linear, const LoraWeights& side);

// Differentiable in x, A, B and m. `y` is x W^T + b; `input` is x, or dropout(x), in the linear's dtype.
at::Tensor dora_forward(const Linear& linear, const at::Tensor& y, const at::Tensor& input,
                        const PassContext& pass);

// Without autograd, as in fused_linear.h: `lora_a_out` is s x' A^T of the side. Sums in fp32, rounded once.
void dora_into(at::Tensor out, const Linear& linear, const LoraWeights& side, const at::Tensor& x,
               const at::Tensor& dropped, const at::Tensor& lora_a_out, const at::Tensor& residual);
// g d_out, in d_out's dtype: the gradient of the term that g multiplies.
at::Tensor dora_inner_gradient(const Linear& linear, const at::Tensor& d_out);
// Adds dm = sum over t of d_out (x' W^T + lora_a_out B^T) / n, in fp32, to the .grad of the magnitude.
void dora_magnitude_backward(const Linear& linear, const at::Tensor& d_out, const at::Tensor& dropped,
                             const at::Tensor& lora_a_out);

}  // namespace hone::ops
