// Root-mean-square norm in plain form (transformers LlamaRMSNorm; Zhang and Sennrich 2019).
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

// weight * cast(x32 * rsqrt(mean(x32^2) + eps)): fp32 inside, rounded to x's dtype before the weight.
// x [..., H], weight [H]; the result has the wider dtype of the two. Differentiable in x.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace hone::ops
