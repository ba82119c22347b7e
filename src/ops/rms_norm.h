// Root-mean-square norm (transformers LlamaRMSNorm; Zhang and Sennrich 2019), in autograd form and fused.
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

// weight * cast(x32 * rsqrt(mean(x32^2) + eps)): fp32 inside (fp64 for fp64), rounded to x's dtype before the
// weight. x [..., H], weight [H]; the result has the wider dtype of the two. Differentiable in x.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// The gradient by x of x * rsqrt(mean(x^2) + eps), given the gradient g of that; shared by the portable
// backwards. One dtype.
at::Tensor rms_gradient(const at::Tensor& g, const at::Tensor& x, double eps);

// ---- the fused forms: one pass, no autograd

// out [T, H] = the same formula; out's dtype may be narrower than the formula's: the next linear would round
// it anyway. x [T, H], contiguous.
void rms_norm_into(at::Tensor out, const at::Tensor& x, const at::Tensor& weight, double eps);

// dx [T, H] += d(norm) by x, given dy [T, H] (fp32 or bf16): dx already holds the residual path's gradient.
// Only the input's gradient. Computed in fp32, rounded once to dx's dtype.
void rms_norm_backward_add(at::Tensor dx, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                           double eps);

// The same, and cast [T, H] = dx as it is then, in cast's dtype: what the linears below read.
void rms_norm_backward_add(at::Tensor dx, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                           double eps, const at::Tensor& cast);

// gradient [H] fp32 += the gradient of a trained weight: the sum over t of dy * cast(x * rsqrt(mean(x^2) + eps)), in
// fp32. dy and x [T, H]; the cast is to x's dtype, as in the formula.
void rms_norm_weight_gradient(at::Tensor gradient, const at::Tensor& dy, const at::Tensor& x, double eps);

}  // namespace hone::ops
