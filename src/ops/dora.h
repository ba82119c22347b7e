// DoRA: the direction of W + s B A, and a magnitude m of its own for each output.
// Formula: PEFT 0.21.2 lora/dora.py DoraLinearLayer and variants.py DoraLinearVariant; n = ||W + s B A|| of
// each row is treated as a constant, as the paper's section 4.3 has it.
//
//   g = m / n                                                       [out]
//   y = g (x W^T + s x A^T B^T) + b                                 without dropout
//   y = x W^T + b + (g - 1) (x' W^T) + g s x' A^T B^T               x': x dropped, which the base's product
//   sees too
//
// Everything here is plain: one more product a call than LoRA, and one pass over W when A or B have changed.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/linear.h"

namespace hone::ops {

// n [out] fp32, no gradient; kept until A or B change. W is taken as the GEMM reads it (bf16 under autocast).
at::Tensor dora_norm(const Linear& linear);

// Differentiable in x, A, B and m. `y` is x W^T + b; `input` is x, or x dropped, in the linear's dtype.
at::Tensor dora_forward(const Linear& linear, const at::Tensor& y, const at::Tensor& input,
                        const PassContext& pass);

// Without autograd, as explicit_linear.h: `low` is s x' A^T. Sums in fp32, rounded once.
void dora_into(at::Tensor out, const Linear& linear, const at::Tensor& x, const at::Tensor& dropped,
               const at::Tensor& low, const at::Tensor& residual);
// g d_out, in d_out's dtype: the gradient of what g scales.
at::Tensor dora_inner_gradient(const Linear& linear, const at::Tensor& d_out);
// Adds dm = sum over t of d_out (x' W^T + low B^T) / n, in fp32, to the .grad of the magnitude.
void dora_magnitude_backward(const Linear& linear, const at::Tensor& d_out, const at::Tensor& dropped,
                             const at::Tensor& low);

}  // namespace hone::ops
