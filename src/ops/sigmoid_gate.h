// A gate of attention's output (transformers 5.23, Qwen3_5Attention): x * sigmoid(gate).
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

// Both [T, W], in their own dtype; two roundings. Differentiable in both.
at::Tensor sigmoid_gate(const at::Tensor& x, const at::Tensor& gate);

// ---- the fused forms; rows may be strided

// out [T, W] = x * sigmoid(gate), computed in fp32, rounded once.
void sigmoid_gate_into(at::Tensor out, const at::Tensor& x, const at::Tensor& gate);

// In place: gate holds the forward's input on entry and its gradient on return, d the gradient of the output on entry and
// that of x on return. x is the forward's.
void sigmoid_gate_backward(at::Tensor gate, at::Tensor d, const at::Tensor& x);

}  // namespace hone::ops
