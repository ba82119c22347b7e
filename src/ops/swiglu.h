// SwiGLU's activation (Shazeer 2020; transformers LlamaMLP with hidden_act "silu"), or GEGLU's with `gelu_tanh`
// (gelu_pytorch_tanh: g sigmoid(2 sqrt(2 / pi) (g + 0.044715 g^3)), which is 0.5 g (1 + tanh of half of that)).
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

// silu(gate) * up, both [T, I], in their own dtype. Differentiable in both.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, bool gelu_tanh = false);

// ---- the fused forms: gate and up may be slices of a concatenated [T, 2 I] buffer

// out [T, I] = silu(gate) * up, computed in fp32, rounded once.
void swiglu_into(at::Tensor out, const at::Tensor& gate, const at::Tensor& up, bool gelu_tanh = false);

// In place: gate and up hold the forward's inputs on entry and their gradients on return, given d [T, I].
void swiglu_backward(at::Tensor gate, at::Tensor up, const at::Tensor& d, bool gelu_tanh = false);

}  // namespace hone::ops
