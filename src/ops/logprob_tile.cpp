#include "ops/logprob_tile.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "ops/cpu/logprob_rows.h"

namespace hone::ops {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// The peak, or 0 while every logit was -inf: what exp's argument is taken from.
at::Tensor base_of(const at::Tensor& peak) {
  return peak.masked_fill(peak.eq(kNone), 0);
}

// Where the targets are in a tile: [n] bool, and [n, 1] their columns (0 or the last for those elsewhere).
struct Places {
  at::Tensor here, column;
};

Places places_in(const at::Tensor& targets, std::int64_t first_column, std::int64_t width) {
  const at::Tensor column = targets - first_column;
  return {column.ge(0).logical_and_(column.lt(width)), column.clamp(0, width - 1).unsqueeze(1)};
}

void take_aten(SoftmaxRows& rows, const at::Tensor& logits, std::int64_t first_column,
               const at::Tensor& probabilities, const at::Tensor& accumulator) {
  const auto [most, index] = logits.max(1);
  const at::Tensor rises = most.gt(rows.peak);
  const at::Tensor peak = at::where(rises, most, rows.peak);
  const at::Tensor base = base_of(peak);
  rows.first = at::where(rises, index + first_column, rows.first);

  // The sums so far move to the new peak; there are none while the peak was -inf.
  const at::Tensor shift = (base_of(rows.peak).to(at::kDouble) - base.to(at::kDouble)) / rows.temperature;
  const at::Tensor factor = shift.exp().masked_fill(rows.peak.eq(kNone), 0);
  rows.dot = (rows.dot + shift * rows.sum) * factor;
  rows.sum = rows.sum * factor;
  if (rows.squares.defined()) rows.squares = rows.squares * factor * factor;
  rows.peak = peak;

  at::Tensor z = (logits - base.unsqueeze(1)).mul_(1 / rows.temperature);
  z.clamp_min_(-1e30);  // finite: an impossible token adds 0 and not 0 * inf
  at::Tensor e = z.exp();
  rows.sum += e.sum(1).to(at::kDouble);
  if (rows.squares.defined()) rows.squares += e.square().sum(1).to(at::kDouble);
  rows.dot += z.mul_(e).sum(1).to(at::kDouble);

  const Places places = places_in(rows.targets, first_column, logits.size(1));
  rows.target = at::where(places.here, logits.gather(1, places.column).squeeze(1), rows.target);
  if (probabilities.defined()) {
    const at::Tensor others = e.gather(1, places.column).masked_fill_(places.here.unsqueeze(1), 0);
    probabilities.copy_(e.scatter_(1, places.column, others));
    at::Tensor(accumulator).mul_(factor.to(at::kFloat).unsqueeze(1));
  }
}

TokenLogprobs finish_plain(const SoftmaxRows& rows) {
  const at::Tensor base = base_of(rows.peak).to(at::kDouble);
  const at::Tensor log_sum = rows.sum.log();
  const at::Tensor target = (rows.target.to(at::kDouble) - base) / rows.temperature;
  TokenLogprobs facts;
  facts.logprob = (target - log_sum).to(at::kFloat);
  facts.entropy = (log_sum - rows.dot / rows.sum).to(at::kFloat);
  facts.is_top1 = rows.first.eq(rows.targets).to(at::kFloat);
  facts.log_sum = (base / rows.temperature + log_sum).to(at::kFloat);
  if (rows.squares.defined()) facts.log_sum_squares = (rows.squares.log() - 2 * log_sum).to(at::kFloat);
  return facts;
}

void backward_plain(const TileBackward& rows, const at::Tensor& logits, std::int64_t first_column,
                    const at::Tensor& narrow) {
  at::Tensor d = logits;
  d.div_(rows.temperature).sub_(rows.log_sum.unsqueeze(1));
  const Places places = places_in(rows.targets, first_column, d.size(1));
  const at::Tensor own = d.gather(1, places.column).expm1_();  // p - 1, with the digits that 1 - p loses
  d.exp_();
  d.scatter_(1, places.column, at::where(places.here.unsqueeze(1), own, d.gather(1, places.column)));
  d.mul_((rows.upstream / -rows.temperature).unsqueeze(1));
  if (narrow.defined()) at::Tensor(narrow).copy_(d);
}

}  // namespace

SoftmaxRows::SoftmaxRows(const at::Tensor& the_targets, double the_temperature, bool with_squares)
    : targets(the_targets.contiguous()), temperature(the_temperature) {
  const auto options = targets.options();
  peak = at::full_like(targets, kNone, options.dtype(at::kFloat));
  first = at::full_like(targets, -1);
  target = at::full_like(peak, kNone);
  sum = at::zeros_like(targets, options.dtype(at::kDouble));
  dot = at::zeros_like(sum);
  if (with_squares) squares = at::zeros_like(sum);
}

void take_tile(SoftmaxRows& rows, const at::Tensor& logits, std::int64_t first_column,
               const at::Tensor& probabilities, const at::Tensor& accumulator) {
  (has_kernel(logits) ? take_kernel : take_aten)(rows, logits, first_column, probabilities, accumulator);
}

void take_row(SoftmaxRows& rows, const at::Tensor& logits) {
  if (has_kernel(logits)) return take_row_kernel(rows, logits);
  for (std::int64_t column = 0; column < logits.size(1); column += kTileColumns) {
    take_aten(rows, logits.narrow(1, column, std::min(kTileColumns, logits.size(1) - column)), column, {},
              {});
  }
}

TokenLogprobs finish(const SoftmaxRows& rows) {
  return has_kernel(rows.peak.unsqueeze(1)) ? finish_kernel(rows) : finish_plain(rows);
}

void tile_backward(const TileBackward& rows, const at::Tensor& logits, std::int64_t first_column,
                   const at::Tensor& narrow) {
  (has_kernel(logits) ? backward_kernel : backward_plain)(rows, logits, first_column, narrow);
}

}  // namespace hone::ops
