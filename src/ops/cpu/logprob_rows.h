// The CPU form of ops/logprob_tile.h, function by function. Internal to it.
#pragma once

#include "ops/logprob_tile.h"

namespace hone::ops {

// Whether this form supports these logits [n, w] on this machine.
bool has_kernel(const at::Tensor& logits);

void take_kernel(SoftmaxRows& rows, const at::Tensor& logits, std::int64_t first_column,
                 const at::Tensor& probabilities, const at::Tensor& accumulator);
void take_row_kernel(SoftmaxRows& rows, const at::Tensor& logits);
TokenLogprobs finish_kernel(const SoftmaxRows& rows);
void backward_kernel(const TileBackward& rows, const at::Tensor& logits, std::int64_t first_column,
                     const at::Tensor& narrow);

}  // namespace hone::ops
