#include "ops/head/logprob_tile.h"

#include <ATen/ATen.h>

#include <limits>

#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {

SoftmaxRows::SoftmaxRows(const at::Tensor& the_targets, double the_temperature, bool with_squares)
    : targets(the_targets.contiguous()), temperature(the_temperature) {
  // Those of one kind are rows of one tensor: a device pays for each that is filled.
  const auto options = targets.options();
  const at::Tensor least =
      at::full({2, targets.size(0)}, -std::numeric_limits<double>::infinity(), options.dtype(at::kFloat));
  const at::Tensor sums = at::zeros({with_squares ? 3 : 2, targets.size(0)}, options.dtype(at::kDouble));
  peak = least.select(0, 0);
  target = least.select(0, 1);
  first = at::full_like(targets, -1);
  sum = sums.select(0, 0);
  dot = sums.select(0, 1);
  if (with_squares) squares = sums.select(0, 2);
}

void take_tile(SoftmaxRows& rows, const at::Tensor& logits, std::int64_t first_column,
               const at::Tensor& probabilities, const at::Tensor& accumulator) {
  backend::run(logits.device(), &backend::Operators::take_tile, reference::take_tile, rows, logits,
               first_column, probabilities, accumulator);
}

void take_row(SoftmaxRows& rows, const at::Tensor& logits) {
  backend::run(logits.device(), &backend::Operators::take_row, reference::take_row, rows, logits);
}

TokenLogprobs finish(const SoftmaxRows& rows) {
  TokenLogprobs facts;
  backend::run(rows.peak.device(), &backend::Operators::finish, reference::finish, facts, rows);
  return facts;
}

void tile_backward(const TileBackward& rows, const at::Tensor& logits, std::int64_t first_column,
                   const at::Tensor& narrow) {
  backend::run(logits.device(), &backend::Operators::tile_backward, reference::tile_backward, rows, logits,
               first_column, narrow);
}

}  // namespace hone::ops
