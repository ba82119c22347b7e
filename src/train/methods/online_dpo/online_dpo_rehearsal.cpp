// OnlineDpo::rehearse: a prompt of the data, two short completions of the run's own sampler, the first
// as if it were the better, and the trainer's passes over them. No reward and no judge is asked.
#include <ATen/ATen.h>

#include <algorithm>

#include "train/methods/online_dpo/online_dpo.h"
#include "train/steps/pair_method.h"
#include "train/steps/rehearsal_rollouts.h"

namespace hone::train::online_dpo {

namespace {

// Two that differ: equal ones have no gradient. A sampler that is sure of itself gets one of them shortened.
RolloutBatch different_rollouts(const SamplingParts& parts, RehearsalRequest request) {
  constexpr int kTries = 4;
  RolloutBatch out;
  for (int i = 0; i < kTries; ++i, request.index += 1) {
    out = rehearsal_rollouts(parts.model, parts.rehearsal_prompt, parts.sampling, request);
    if (out.samples[0].ids != out.samples[1].ids) return out;
  }
  RolloutSample& second = out.samples[1];
  if (second.ids.size() > 1) {
    second.ids.pop_back();
    if (second.old_logprobs.size() > second.ids.size()) second.old_logprobs.pop_back();
  }
  return out;
}

OnlinePair first_chosen(const RolloutBatch& batch) {
  const RolloutPrompt& prompt = batch.prompts.front();
  OnlinePair out{.chosen = 0, .rejected = 1};
  out.record.row = prompt.row;
  data::add_sequence(out.record, data::Part::kChosen, prompt.ids, batch.samples[0].ids);
  data::add_sequence(out.record, data::Part::kRejected, prompt.ids, batch.samples[1].ids);
  return out;
}

}  // namespace

Rehearsal OnlineDpo::rehearse(const RehearsalRequest& request) {
  const RolloutBatch batch = different_rollouts(parts_, request);
  const OnlinePair pair = first_chosen(batch);
  const PairPass one = pass_of({&pair, 1});
  Rehearsal out{.tokens = static_cast<std::int64_t>(one.pass.batch.ids.size()),
                .scored = static_cast<std::int64_t>(one.pass.target.size())};
  RngKey key = pass_key(parts_.plan, 0, /*training=*/false);
  if (request.adapters_on) {
    const TokenScores sampled = score_policy(parts_.model, one.pass, key, parts_.form,
                                             {.temperature = parts_.plan.policy.temperature});
    out.sampler_gap = largest_difference(sampled.logprob, batch, {0, 1});
  }
  const at::Tensor reference = learn::sum_logps(reference_of(one), one.scored, std::nullopt);
  const auto see = [&](const TokenScores& scores) {
    out.nll = -scores.logprob.mean().item<double>();
    learn::PreferenceGradient found = loss_of(one, scores, reference, beta_at(0));
    out.loss = found.loss;
    learn::PolicyGradient gradient;
    gradient.loss = found.loss;
    gradient.d_logprob = found.d_logprob;
    return gradient;
  };
  key = pass_key(parts_.plan, request.index,
                 request.training && request.adapters_on && !parts_.plan.disable_dropout);
  key.adapters_on = request.adapters_on;
  if (request.backward && request.adapters_on) {
    train_policy(parts_.model, one.pass, key, parts_.form, {}, see);
  } else {
    see(score_policy(parts_.model, one.pass, key, parts_.form));
  }
  return out;
}

void OnlineDpo::replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) {
  if (step != last_step_) return;
  const RngKey key = training_key(step);
  for (const OnlinePair& one : newest_pairs_) {
    const Found found = run_pairs({&one, 1}, newest_, key, beta_at(step), /*backward_scale=*/1, 0);
    const std::string name = "completions " + std::to_string(one.chosen) + " and " +
                             std::to_string(one.rejected) + " of step " + std::to_string(step + 1) +
                             ", prompt of line " + std::to_string(one.record.row + 1);
    if (!see({.name = name, .loss = found.loss})) return;
  }
}

}  // namespace hone::train::online_dpo
