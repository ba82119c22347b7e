// The soft cap of logits (Gemma 2's final_logit_softcapping): x becomes cap tanh(x / cap).
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

// Differentiable, of any dtype; cap 0: x itself.
at::Tensor soft_cap(const at::Tensor& x, double cap);

// ---- the fused forms, of rows [n, w]; nothing with cap 0

// In place, fp32. An element's bits depend only on itself, on every instruction set.
void soft_cap_into(at::Tensor x, double cap);
// d [n, w], fp32 or bf16, the gradient of capped values becomes that of the values before; `capped` fp32 holds the values
// after the cap: d *= 1 - (capped / cap)^2.
void soft_cap_backward(at::Tensor d, const at::Tensor& capped, double cap);

}  // namespace hone::ops
