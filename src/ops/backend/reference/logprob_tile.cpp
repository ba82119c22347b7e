#include "ops/head/logprob_tile.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "ops/backend/reference/reference.h"

namespace hone::ops::reference {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// The peak, or 0 while every logit was -inf: what exp's argument is taken from.
Tensor base_of(const Tensor& peak) {
  return peak.masked_fill(peak.eq(kNone), 0);
}

// Where the targets are in a tile: [n] bool, and [n, 1] their columns (0 or the last for those elsewhere).
struct Places {
  Tensor here, column;
};

Places places_in(const Tensor& targets, std::int64_t first_column, std::int64_t width) {
  const Tensor column = targets - first_column;
  return {column.ge(0).logical_and_(column.lt(width)), column.clamp(0, width - 1).unsqueeze(1)};
}

}  // namespace

void take_tile(SoftmaxRows& rows, const Tensor& logits, std::int64_t first_column,
               const Tensor& probabilities, const Tensor& accumulator) {
  const auto [most, index] = logits.max(1);
  const Tensor rises = most.gt(rows.peak);
  const Tensor peak = at::where(rises, most, rows.peak);
  const Tensor base = base_of(peak);
  rows.first = at::where(rises, index + first_column, rows.first);

  // The sums so far move to the new peak; there are none while the peak was -inf.
  const Tensor shift = (base_of(rows.peak).to(at::kDouble) - base.to(at::kDouble)) / rows.temperature;
  const Tensor factor = shift.exp().masked_fill(rows.peak.eq(kNone), 0);
  rows.dot = (rows.dot + shift * rows.sum) * factor;
  rows.sum = rows.sum * factor;
  if (rows.squares.defined()) rows.squares = rows.squares * factor * factor;
  rows.peak = peak;

  Tensor z = (logits - base.unsqueeze(1)).mul_(1 / rows.temperature);
  z.clamp_min_(-1e30);  // finite: an impossible token adds 0 and not 0 * inf
  Tensor e = z.exp();
  rows.sum += e.sum(1).to(at::kDouble);
  if (rows.squares.defined()) rows.squares += e.square().sum(1).to(at::kDouble);
  rows.dot += z.mul_(e).sum(1).to(at::kDouble);

  const Places places = places_in(rows.targets, first_column, logits.size(1));
  rows.target = at::where(places.here, logits.gather(1, places.column).squeeze(1), rows.target);
  if (probabilities.defined()) {
    const Tensor others = e.gather(1, places.column).masked_fill_(places.here.unsqueeze(1), 0);
    probabilities.copy_(e.scatter_(1, places.column, others));
    Tensor(accumulator).mul_(factor.to(at::kFloat).unsqueeze(1));
  }
}

void take_row(SoftmaxRows& rows, const Tensor& logits) {
  for (std::int64_t column = 0; column < logits.size(1); column += kTileColumns) {
    const std::int64_t width = std::min(kTileColumns, logits.size(1) - column);
    reference::take_tile(rows, logits.narrow(1, column, width), column, {}, {});
  }
}

void finish(TokenLogprobs& facts, const SoftmaxRows& rows) {
  const Tensor base = base_of(rows.peak).to(at::kDouble);
  const Tensor log_sum = rows.sum.log();
  // x / 1 has x's bits
  const auto cooled = [&](const Tensor& x) { return rows.temperature == 1 ? x : x / rows.temperature; };
  const Tensor target = cooled(rows.target.to(at::kDouble) - base);
  facts.logprob = (target - log_sum).to(at::kFloat);
  facts.entropy = (log_sum - rows.dot / rows.sum).to(at::kFloat);
  facts.is_top1 = rows.first.eq(rows.targets).to(at::kFloat);
  facts.log_sum = (cooled(base) + log_sum).to(at::kFloat);
  if (rows.squares.defined()) facts.log_sum_squares = (rows.squares.log() - 2 * log_sum).to(at::kFloat);
}

void tile_backward(const TileBackward& rows, const Tensor& logits, std::int64_t first_column,
                   const Tensor& narrow) {
  const Tensor& d = logits;
  d.div_(rows.temperature).sub_(rows.log_sum.unsqueeze(1));
  const Places places = places_in(rows.targets, first_column, d.size(1));
  const Tensor own = d.gather(1, places.column).expm1_();  // p - 1, with the digits that 1 - p loses
  d.exp_();
  d.scatter_(1, places.column, at::where(places.here.unsqueeze(1), own, d.gather(1, places.column)));
  d.mul_((rows.upstream / -rows.temperature).unsqueeze(1));
  if (narrow.defined()) Tensor(narrow).copy_(d);
}

}  // namespace hone::ops::reference
