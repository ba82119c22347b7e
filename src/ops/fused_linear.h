// Linears with frozen adapters, LoRA or DoRA, without autograd: the forward in one pass over the output, and
// the backward of several linears that read the same input. ops/linear.h's linear_forward is the definition.
//
// Shapes: x [T, in], out [T, out], lora_a_out [T, r]. Everything in the weights' dtype unless said otherwise.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "ops/linear.h"

namespace hone::ops {

// The side of a linear for rows of `sides`; null: they go through none.
const LoraWeights* side_of(const Linear& linear, const AdapterSides* sides, const PassContext& pass);

// lora_a_out = scale * drop(x) A^T, [T, r]; undefined when the linear has no LoRA weights or adapters are
// off. The backward needs it. With adapter_rows [T, the sum of the sides' ranks]: a row has zeros but in the columns of its
// own side.
at::Tensor lora_a_forward(const Linear& linear, const at::Tensor& x, const PassContext& pass);

// The same for several linears that read x, distributed over the threads together.
std::vector<at::Tensor> lora_a_forwards(std::span<const Linear* const> linears, const at::Tensor& x,
                                        const PassContext& pass);

// out = x W^T + (x A_f^T) B_f^T + lora_a_out B^T + bias + residual, rounded once. `out` may be a slice of a
// concatenated buffer; residual has its dtype, or is undefined. `pass` gives the dropout, which with DoRA
// also applies to the base's product.
void linear_into(at::Tensor out, const Linear& linear, const at::Tensor& x, const at::Tensor& lora_a_out,
                 const PassContext& pass, const at::Tensor& residual = {});

// linear_into() for several linears that read x, distributed over the threads together.
struct LinearOutput {
  at::Tensor out;
  const Linear* linear = nullptr;
  at::Tensor lora_a_out;
};
void linears_into(std::span<const LinearOutput> outputs, const at::Tensor& x, const PassContext& pass);

struct LinearGradient {
  const Linear* linear = nullptr;
  at::Tensor d_out;       // [T, out]
  at::Tensor lora_a_out;  // result of lora_a_forward
};

// Linears that share the input x: writes dx [T, in] (undefined: not wanted) and adds gradients in fp32 to the
// .grad of the LoRA weights' a and b (and magnitude), of the trained weight and of the trained bias. Adapters are on.
void linears_backward(at::Tensor dx, std::span<const LinearGradient> linears, const at::Tensor& x,
                      const PassContext& pass);

}  // namespace hone::ops
