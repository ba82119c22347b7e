#include "train/methods/dpo/dpo.h"

#include <ATen/ATen.h>

#include "ops/head/linear_logprob.h"
#include "train/passes/pair_pass.h"

namespace hone::train::dpo {

namespace {

// TRL's words as the loss takes them.
learn::PreferenceLossOptions loss_options(const config::PreferencePlan& plan) {
  learn::PreferenceLossOptions out{plan};
  out.terms.clear();
  for (std::size_t i = 0; i < plan.loss_type.size(); ++i) {
    const double weight = plan.loss_weights.empty() ? 1.0 : plan.loss_weights.at(i);
    out.terms.push_back({learn::preference_loss_type(plan.loss_type[i]), weight});
  }
  out.f_divergence = learn::f_divergence(plan.f_divergence_type);
  return out;
}

}  // namespace

Dpo::Dpo(RecordParts parts)
    : PairMethod(std::move(parts)),
      options_(loss_options(plan_.preference)),
      head_{.mean_row = ops::mean_row(parts_.model.head()), .squares = options_.use_weighting} {}

PairReference Dpo::score_reference(const std::vector<data::RecordView>& records) const {
  const PairPass one = make_pair_pass(records, {.share_prompt = shares(), .routers = routers()});
  return split_sums(learn::sum_logps(reference_logprobs(one.pass), one.scored, options_.ld_alpha));
}

BatchLoss Dpo::run_pairs(const PairBatch& batch) const {
  const PairPass one = make_pair_pass(
      batch.records, {.share_prompt = shares(), .row_base = batch.row_base, .routers = routers()});
  const at::Tensor reference = joined_sums(reference_of(batch));
  BatchLoss out = run_tokens(one.pass, batch, head_, [&](const TokenScores& scores) {
    return learn::preference_gradient(preference_tokens(one, scores, reference), options_);
  });
  out.tokens = one.tokens;
  return out;
}

}  // namespace hone::train::dpo
