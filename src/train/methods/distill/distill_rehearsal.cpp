// Distill::rehearse and replay_samples: short completions of the run's own sampler, and those of the newest step, through
// the run's own loss.
#include <ATen/ATen.h>

#include <algorithm>

#include "train/methods/distill/distill.h"
#include "train/passes/policy_pass.h"
#include "train/steps/rehearsal_rollouts.h"

namespace hone::train::distill {

Rehearsal Distill::rehearse(const RehearsalRequest& request) {
  const RolloutBatch batch =
      rehearsal_rollouts(parts_.model, parts_.rehearsal_prompt, parts_.sampling, request);
  const std::vector<std::size_t> samples = all_of(batch.samples.size());
  const PolicyPass pass = make_policy_pass(batch, samples, /*share_prompt=*/false);
  Rehearsal out{.tokens = std::ssize(pass.batch.ids), .scored = std::ssize(pass.target)};
  RngKey key = pass_key(parts_.plan, 0, /*training=*/false);
  key.adapters_on = request.adapters_on;
  const TokenScores scores =
      score_policy(parts_.model, pass, key, parts_.form, {.temperature = parts_.plan.policy.temperature});
  out.nll = -scores.logprob.mean().item<double>();
  if (request.adapters_on) out.sampler_gap = largest_difference(scores.logprob, batch, samples);
  key = pass_key(parts_.plan, request.index,
                 request.training && request.adapters_on && !parts_.plan.disable_dropout);
  key.adapters_on = request.adapters_on;
  const double share = 1 / static_cast<double>(std::max<std::int64_t>(1, out.scored));
  const bool trains = request.backward && request.adapters_on;
  out.loss = share * run_samples(batch, samples, key, trains ? share : 0).divergence;
  return out;
}

void Distill::replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) {
  if (step != last_step_) return;
  const RngKey key = training_key(step);
  for (std::size_t i = 0; i < newest_.samples.size(); ++i) {
    const double share = 1 / static_cast<double>(std::max<std::size_t>(1, newest_.samples[i].drawn()));
    const DivergenceFacts found = run_samples(newest_, {&i, 1}, key, share);
    const std::string name = "completion " + std::to_string(i) + " of step " + std::to_string(step + 1) +
                             ", prompt of line " +
                             std::to_string(newest_.prompts[newest_.samples[i].prompt].row + 1);
    if (!see({.name = name, .loss = share * found.divergence})) return;
  }
}

}  // namespace hone::train::distill
