// The online softmax under linear_logprob and logprob_of: rows of logits arrive in vocabulary tiles, in
// order. Internal to ops.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/head/linear_logprob.h"

namespace hone::ops {

// Width of a tile on the CPU and in the reference: it determines the order of additions, so it is the same for every batch
// and head.
constexpr std::int64_t kTileColumns = 1024;

// Of n rows, [n] each; sums are of z = (x - peak) / temperature, over the tiles so far.
struct SoftmaxRows {
  SoftmaxRows(const at::Tensor& targets, double temperature, bool with_squares = false);

  at::Tensor targets;      // int64
  double temperature = 1;  // > 0
  at::Tensor peak;         // fp32, -inf at first
  at::Tensor first;        // int64, index of the first peak; -1 at first
  at::Tensor target;       // fp32, the target's logit once its tile has passed
  at::Tensor sum;          // fp64, sum exp(z)
  at::Tensor dot;          // fp64, sum z exp(z)
  at::Tensor squares;      // fp64, sum exp(2 z); undefined unless asked for
};

// Adds columns [first_column, first_column + w) of the vocabulary. logits [n, w] fp32, rows may be strided.
// When `probabilities` [n, w] (fp32 or bf16) is defined it becomes exp(z), 0 at the target (whose gradient is
// 1 - p(target), which rounding to bf16 would lose for a confident model), and `accumulator` [n, H] fp32 is
// rescaled to the new peak.
void take_tile(SoftmaxRows& rows, const at::Tensor& logits, std::int64_t first_column,
               const at::Tensor& probabilities = {}, const at::Tensor& accumulator = {});

// All columns of logits [n, V].
void take_row(SoftmaxRows& rows, const at::Tensor& logits);

// The results of the rows, without the gradient.
TokenLogprobs finish(const SoftmaxRows& rows);

// The same tile of the backward pass: logits becomes d [n, w] = upstream ([n] fp32) * d logprob / d logit, in
// fp32 or rounded to `narrow` [n, w] if that is defined.
struct TileBackward {
  at::Tensor targets, log_sum, upstream;
  double temperature = 1;
};
void tile_backward(const TileBackward& rows, const at::Tensor& logits, std::int64_t first_column,
                   const at::Tensor& narrow = {});

}  // namespace hone::ops
