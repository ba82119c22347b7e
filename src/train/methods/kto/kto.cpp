#include "train/methods/kto/kto.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "learn/wide.h"
#include "ops/head/linear_logprob.h"
#include "train/pair_pass.h"

namespace hone::train::kto {

namespace {

learn::KtoLossOptions loss_options(const config::KtoPlan& plan) {
  return {plan, learn::kto_loss_type(plan.loss_type)};
}

// The rows' prompts, each with one of its two completions.
PairPass one_side(const PairData& data, const Rows& rows, Sides side, std::int64_t row_base,
                  RouterTokens routers = RouterTokens::kNone) {
  return make_pair_pass(data.pairs, rows, /*share_prompt=*/false, row_base, side, routers);
}

std::vector<double> sums_of(const at::Tensor& logprob, const std::vector<std::int64_t>& scored) {
  const at::Tensor values = learn::wide(logprob);
  const double* at = values.const_data_ptr<double>();
  std::vector<double> out;
  for (const std::int64_t count : scored) {
    out.push_back(std::accumulate(at, at + count, 0.0));
    at += count;
  }
  return out;
}

}  // namespace

Kto::Kto(PairParts parts)
    : PairMethod(std::move(parts)),
      options_(loss_options(plan_.kto)),
      head_{.mean_row = ops::mean_row(parts_.model.head())} {}

PairReference Kto::score_reference(const PairData& data, const Rows& rows) const {
  PairReference out;
  const bool whole = std::all_of(rows.begin(), rows.end(), [&](std::int64_t row) {
    return !data.pairs.at(static_cast<std::size_t>(row)).rejected.scored.empty();
  });
  if (estimates() && whole) {
    const PairPass both = make_pair_pass(data.pairs, rows, parts_.form.is_fused);
    return split_sums(at::tensor(sums_of(reference_logprobs(both.pass), both.scored), at::kDouble));
  }
  const PairPass own = one_side(data, rows, Sides::kChosen, 0, routers());
  out.chosen = sums_of(reference_logprobs(own.pass), own.scored);
  if (!estimates()) return out;
  out.rejected.assign(rows.size(), 0);
  const PairPass other = one_side(data, rows, Sides::kRejected, 0);
  if (other.rows.empty()) return out;
  const std::vector<double> sums = sums_of(reference_logprobs(other.pass), other.scored);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto place = std::find(rows.begin(), rows.end(), other.rows[i]) - rows.begin();
    out.rejected[static_cast<std::size_t>(place)] = sums[i];
  }
  return out;
}

double Kto::mean_kl(const PairBatch& batch, const PairReference& reference) const {
  if (!estimates()) return 0;
  const auto count = static_cast<std::int64_t>(batch.rows.size());
  const PairPass other = one_side(batch.data, batch.rows, Sides::kRejected, batch.row_base + count);
  if (other.rows.empty()) return 0;
  const TokenScores scores = score_policy(parts_.model, other.pass, batch.key, parts_.form);
  const std::vector<double> sums = sums_of(scores.logprob, other.scored);
  double out = std::accumulate(sums.begin(), sums.end(), 0.0);
  out -= std::accumulate(reference.rejected.begin(), reference.rejected.end(), 0.0);
  return out / static_cast<double>(count);
}

BatchLoss Kto::run_pairs(const PairBatch& batch) const {
  const PairReference reference = reference_of(batch);
  const PairPass own = one_side(batch.data, batch.rows, Sides::kChosen, batch.row_base, routers());
  learn::KtoTokens tokens{.desirable = {},
                          .scored = own.scored,
                          .reference = reference.chosen,
                          .kl = mean_kl(batch, reference),
                          .logprob = {},
                          .entropy = {},
                          .mean_logit = {}};
  for (const std::int64_t row : batch.rows)
    tokens.desirable.push_back(batch.data.desirable.at(static_cast<std::size_t>(row)));
  BatchLoss out = run_tokens(own.pass, batch, head_, [&](const TokenScores& scores) {
    tokens.logprob = scores.logprob;
    tokens.entropy = scores.entropy;
    tokens.mean_logit = scores.mean_logit;
    return learn::kto_gradient(tokens, options_);
  });
  out.tokens = own.tokens;
  return out;
}

}  // namespace hone::train::kto
