// Dropout on an adapter's input whose mask is a pure function of the token's row and position in the data,
// not of its place in a batch. dropout_mask, the definition, is declared in ops/linear.h beside PassContext.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/linear.h"

namespace hone::ops {

// cast(fp32(x) * dropout_mask, dtype) for x [T, features]. Differentiable in x; the mask is generated again
// in the backward and never stored. Needs pass.token_row and pass.token_position, which are copied.
at::Tensor apply_dropout(const at::Tensor& x, const PassContext& pass, std::uint64_t key, double p,
                         at::ScalarType dtype);

// ---- the fused forms: the mask is generated row by row, never stored as a whole

// out [T, features] = cast(fp32(x) * dropout_mask); x and out fp32 or bf16, rows may be strided.
void dropout_into(at::Tensor out, const at::Tensor& x, const PassContext& pass, std::uint64_t key, double p);

// dx += dropout_mask * d, both [T, features]; dx fp32 or bf16, rounded once.
void dropout_backward_add(at::Tensor dx, const at::Tensor& d, const PassContext& pass, std::uint64_t key,
                          double p);

}  // namespace hone::ops
