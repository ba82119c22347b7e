// The head's softmax by kernels of our own: a tile is read once from memory, where the reference reads and writes it some ten times.
#include <ATen/ATen.h>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/own_kernels.h"

namespace hone::ops::cuda {

bool take_tile(SoftmaxRows& rows, const Tensor& logits, std::int64_t first_column,
               const Tensor& probabilities, const Tensor& accumulator) {
  return run_own(logits.device(), &kernels::Kernels::softmax_tile, "softmax_tile",
                 [&](KernelViews& of) -> kernels::SoftmaxTile {
                   of.need(logits.scalar_type() == at::kFloat && logits.size(1) > 0);
                   of.need(!accumulator.defined() || accumulator.scalar_type() == at::kFloat);
                   return {
                       .logits = of.rows(logits),
                       .probabilities = probabilities.defined() ? of.rows(probabilities) : kernels::Rows(),
                       .accumulator = accumulator.defined() ? of.rows(accumulator) : kernels::Rows(),
                       .targets = of.numbers<const std::int64_t>(rows.targets),
                       .first = of.numbers<std::int64_t>(rows.first),
                       .peak = of.numbers<float>(rows.peak),
                       .target = of.numbers<float>(rows.target),
                       .sum = of.numbers<double>(rows.sum),
                       .dot = of.numbers<double>(rows.dot),
                       .squares = rows.squares.defined() ? of.numbers<double>(rows.squares) : nullptr,
                       .tokens = logits.size(0),
                       .width = logits.size(1),
                       .hidden = accumulator.defined() ? accumulator.size(1) : 0,
                       .first_column = first_column,
                       .temperature = rows.temperature};
                 });
}

bool take_row(SoftmaxRows& rows, const Tensor& logits) {
  return cuda::take_tile(rows, logits, 0, {}, {});
}

bool tile_backward(const TileBackward& rows, const Tensor& logits, std::int64_t first_column,
                   const Tensor& narrow) {
  return run_own(logits.device(), &kernels::Kernels::softmax_backward, "softmax_backward",
                 [&](KernelViews& of) -> kernels::SoftmaxBackward {
                   of.need(logits.scalar_type() == at::kFloat);
                   return {.out = of.rows(narrow.defined() ? narrow : logits),
                           .logits = of.rows(logits),
                           .targets = of.numbers<const std::int64_t>(rows.targets),
                           .log_sum = of.numbers<const float>(rows.log_sum),
                           .upstream = of.numbers<const float>(rows.upstream),
                           .tokens = logits.size(0),
                           .width = logits.size(1),
                           .first_column = first_column,
                           .temperature = static_cast<float>(rows.temperature)};
                 });
}

}  // namespace hone::ops::cuda
