// GroupMethod::rehearse: a prompt of the data, two short completions of the run's own sampler, and the
// trainer's passes over them. No reward is asked: user code sees nothing of it.
#include <ATen/ATen.h>

#include "train/steps/group_method.h"
#include "train/steps/rehearsal_rollouts.h"

namespace hone::train {

namespace {

// Not opposite: two completions that are alike must not cancel each other.
constexpr double kAdvantages[kRehearsedCompletions] = {1.0, -0.5};

// Of each token of the pass: minus its completion's advantage, over the number of tokens.
at::Tensor token_weights(const PolicyPass& pass) {
  const auto n = static_cast<std::int64_t>(pass.target.size());
  at::Tensor out = at::empty({n}, at::kFloat);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto sequence = static_cast<std::size_t>(pass.sequence[static_cast<std::size_t>(i)]);
    out[i] = -kAdvantages[pass.samples[sequence]] / static_cast<double>(n);
  }
  return out;
}

}  // namespace

Rehearsal GroupMethod::rehearse(const RehearsalRequest& request) {
  const RolloutBatch batch =
      rehearsal_rollouts(parts_.model, parts_.rehearsal_prompt, parts_.sampling, request);
  const std::vector<std::size_t> samples = {0, 1};
  const PolicyPass pass = make_policy_pass(batch, samples, shares());
  RngKey key = pass_key(parts_.plan, 0, /*training=*/false);
  key.adapters_on = request.adapters_on;
  const TokenScores scores = score_policy(parts_.model, pass, key, parts_.form, head_options());
  Rehearsal out{.tokens = static_cast<std::int64_t>(pass.batch.ids.size()),
                .scored = static_cast<std::int64_t>(pass.target.size())};
  out.nll = -scores.logprob.mean().item<double>();
  const at::Tensor weights = token_weights(pass);
  out.loss = (scores.logprob.cpu() * weights).sum().item<double>();
  if (request.adapters_on) out.sampler_gap = largest_difference(scores.logprob, batch, samples);
  if (!request.backward || !request.adapters_on) return out;
  key = pass_key(parts_.plan, request.index, request.training && !parts_.plan.disable_dropout);
  train_policy(parts_.model, pass, key, parts_.form, head_options(), [&](const TokenScores& now) {
    return learn::PolicyGradient{
        .loss = out.loss, .d_logprob = weights.to(now.logprob.device()), .d_entropy = {}, .metrics = {}};
  });
  return out;
}

void GroupMethod::replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) {
  if (!current_) return;
  const RolloutBatch& batch = current_->batch;
  const RngKey key = training_key(step);
  std::vector<std::size_t> mine;
  for (const PolicySlice& one : order_.step_slices(step)) {
    if (one.generation != batch.generation) continue;
    const auto slices = slices_of(batch);
    const auto& slice = slices.at(static_cast<std::size_t>(one.slice));
    mine.insert(mine.end(), slice.begin(), slice.end());
  }
  for (const std::size_t i : mine) {
    const RolloutSample& sample = batch.samples[i];
    const std::vector<std::size_t> alone = {i};
    const PolicyPass pass = make_policy_pass(batch, alone, /*share_prompt=*/false);
    const double advantage = sample.advantage == 0 ? 1 : sample.advantage;
    double loss = 0;
    train_policy(parts_.model, pass, key, parts_.form, head_options(), [&](const TokenScores& now) {
      const auto n = static_cast<double>(now.logprob.numel());
      loss = -advantage * now.logprob.mean().item<double>();
      return learn::PolicyGradient{.loss = loss,
                                   .d_logprob = at::full_like(now.logprob, -advantage / n),
                                   .d_entropy = {},
                                   .metrics = {}};
    });
    const std::int64_t line = batch.prompts[sample.prompt].row + 1;
    const std::string name = "completion " + std::to_string(i) + " of generation batch " +
                             std::to_string(batch.generation) + ", prompt of line " + std::to_string(line);
    if (!see({.name = name, .loss = loss})) return;
  }
}

}  // namespace hone::train
