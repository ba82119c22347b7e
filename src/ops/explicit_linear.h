// Linears with frozen, LoRA or DoRA sides without autograd: the forward in one pass over the output, and the
// backward of several linears that read the same input. ops/linear.h's linear_forward is the definition.
//
// Shapes: x [T, in], out [T, out], low [T, r]. Everything in the weights' dtype unless said otherwise.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "ops/linear.h"

namespace hone::ops {

// low = scale * drop(x) A^T, [T, r]; undefined when the linear has no side or adapters are off. The backward
// wants it.
at::Tensor lora_low(const Linear& linear, const at::Tensor& x, const PassContext& pass);

// The same of several that read x, shared out among the threads at once.
std::vector<at::Tensor> lora_lows(std::span<const Linear* const> linears, const at::Tensor& x,
                                  const PassContext& pass);

// out = x W^T + (x A_f^T) B_f^T + low B^T + bias + residual, rounded once. `out` may be a slice of a joined
// buffer; residual has its dtype, or is undefined. `pass` is asked for dropout, which with DoRA touches the
// base's product too.
void linear_into(at::Tensor out, const Linear& linear, const at::Tensor& x, const at::Tensor& low,
                 const PassContext& pass, const at::Tensor& residual = {});

// linear_into() of several that read x, shared out among the threads at once.
struct LinearOutput {
  at::Tensor out;
  const Linear* linear = nullptr;
  at::Tensor low;
};
void linears_into(std::span<const LinearOutput> outputs, const at::Tensor& x, const PassContext& pass);

struct LinearGradient {
  const Linear* linear = nullptr;
  at::Tensor d_out;  // [T, out]
  at::Tensor low;    // what lora_low gave
};

// Linears that share the input x: writes dx [T, in] (undefined: not wanted) and adds dA, dB in fp32 to the
// .grad of the sides' a and b (and magnitude).
void linears_backward(at::Tensor dx, std::span<const LinearGradient> linears, const at::Tensor& x,
                      const PassContext& pass);

}  // namespace hone::ops
