#include "train/methods/kto/kto.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "learn/wide.h"
#include "ops/head/linear_logprob.h"
#include "train/passes/pair_pass.h"

namespace hone::train::kto {

using data::Part;

namespace {

learn::KtoLossOptions loss_options(const config::KtoPlan& plan) {
  return {plan, learn::kto_loss_type(plan.loss_type)};
}

// The records' prompts, each with one of its two completions.
PairPass one_side(const std::vector<data::RecordView>& records, data::Part part, std::int64_t row_base = 0,
                  RouterTokens routers = RouterTokens::kNone) {
  return make_pair_pass(records, {.row_base = row_base, .parts = {part}, .routers = routers});
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

Kto::Kto(RecordParts parts)
    : PairMethod(std::move(parts)),
      options_(loss_options(plan_.kto)),
      head_{.mean_row = ops::mean_row(parts_.model.head())} {}

PairReference Kto::score_reference(const std::vector<data::RecordView>& records) const {
  PairReference out;
  const bool whole = std::all_of(records.begin(), records.end(), [&](const data::RecordView& record) {
    return !record.sequence(Part::kExchanged).scored.empty();
  });
  if (estimates() && whole) {
    const PairPass both = make_pair_pass(
        records, {.share_prompt = parts_.form.is_fused, .parts = {Part::kCompletion, Part::kExchanged}});
    return split_sums(at::tensor(sums_of(reference_logprobs(both.pass), both.scored), at::kDouble));
  }
  const PairPass own = one_side(records, Part::kCompletion, 0, routers());
  out.first = sums_of(reference_logprobs(own.pass), own.scored);
  if (!estimates()) return out;
  out.second.assign(records.size(), 0);
  const PairPass other = one_side(records, Part::kExchanged);
  if (other.records.empty()) return out;
  const std::vector<double> sums = sums_of(reference_logprobs(other.pass), other.scored);
  for (std::size_t i = 0; i < sums.size(); ++i) out.second[other.records[i]] = sums[i];
  return out;
}

double Kto::mean_kl(const PairBatch& batch, const PairReference& reference) const {
  if (!estimates()) return 0;
  const auto count = std::ssize(batch.records);
  const PairPass other = one_side(batch.records, Part::kExchanged, batch.row_base + count);
  if (other.records.empty()) return 0;
  const TokenScores scores = score_policy(parts_.model, other.pass, batch.key, parts_.form);
  const std::vector<double> sums = sums_of(scores.logprob, other.scored);
  double out = std::accumulate(sums.begin(), sums.end(), 0.0);
  out -= std::accumulate(reference.second.begin(), reference.second.end(), 0.0);
  return out / static_cast<double>(count);
}

BatchLoss Kto::run_pairs(const PairBatch& batch) const {
  const PairReference reference = reference_of(batch);
  const PairPass own = one_side(batch.records, Part::kCompletion, batch.row_base, routers());
  learn::KtoTokens tokens{.desirable = {},
                          .scored = own.scored,
                          .reference = reference.first,
                          .kl = mean_kl(batch, reference),
                          .logprob = {},
                          .entropy = {},
                          .mean_logit = {}};
  for (const data::RecordView& record : batch.records) tokens.desirable.push_back(record.desirable.value());
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
