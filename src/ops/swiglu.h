// SwiGLU's activation (Shazeer 2020; transformers LlamaMLP with hidden_act "silu").
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

// silu(gate) * up, both [T, I], in their own dtype. Differentiable in both.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace hone::ops
