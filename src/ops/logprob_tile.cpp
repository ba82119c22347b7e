#include "ops/logprob_tile.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace hone::ops {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// The peak, or 0 while every logit was -inf: what exp's argument is taken from.
at::Tensor base_of(const at::Tensor& peak) {
  return peak.masked_fill(peak.eq(kNone), 0);
}

}  // namespace

SoftmaxRows::SoftmaxRows(const at::Tensor& the_targets, double the_temperature)
    : targets(the_targets), temperature(the_temperature) {
  const auto options = targets.options();
  peak = at::full_like(targets, kNone, options.dtype(at::kFloat));
  first = at::full_like(targets, -1);
  target = at::full_like(peak, kNone);
  sum = at::zeros_like(targets, options.dtype(at::kDouble));
  dot = at::zeros_like(sum);
}

void take_tile(SoftmaxRows& rows, const at::Tensor& logits, std::int64_t first_column,
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
  rows.peak = peak;

  at::Tensor z = (logits - base.unsqueeze(1)).mul_(1 / rows.temperature);
  z.clamp_min_(-1e30);  // finite: an impossible token adds 0 and not 0 * inf
  at::Tensor e = z.exp();
  rows.sum += e.sum(1).to(at::kDouble);
  rows.dot += z.mul_(e).sum(1).to(at::kDouble);

  const at::Tensor column = rows.targets - first_column;
  const at::Tensor here = column.ge(0).logical_and_(column.lt(logits.size(1)));
  const at::Tensor place = column.clamp(0, logits.size(1) - 1).unsqueeze(1);
  rows.target = at::where(here, logits.gather(1, place).squeeze(1), rows.target);
  if (probabilities.defined()) {
    e.scatter_(1, place, e.gather(1, place).masked_fill_(here.unsqueeze(1), 0));
    probabilities.copy_(e);
    at::Tensor(accumulator).mul_(factor.to(at::kFloat).unsqueeze(1));
  }
}

void take_row(SoftmaxRows& rows, const at::Tensor& logits) {
  for (std::int64_t column = 0; column < logits.size(1); column += kTileColumns) {
    take_tile(rows, logits.narrow(1, column, std::min(kTileColumns, logits.size(1) - column)), column);
  }
}

TokenLogprobs finish(const SoftmaxRows& rows) {
  const at::Tensor base = base_of(rows.peak).to(at::kDouble);
  const at::Tensor log_sum = rows.sum.log();
  const at::Tensor target = (rows.target.to(at::kDouble) - base) / rows.temperature;
  TokenLogprobs facts;
  facts.logprob = (target - log_sum).to(at::kFloat);
  facts.entropy = (log_sum - rows.dot / rows.sum).to(at::kFloat);
  facts.is_top1 = rows.first.eq(rows.targets).to(at::kFloat);
  facts.log_sum = (base / rows.temperature + log_sum).to(at::kFloat);
  return facts;
}

}  // namespace hone::ops
