#include "train/methods/rloo/rloo.h"

#include <ATen/ATen.h>

#include "train/opening/group_opening.h"
#include "train/steps/micro_batches.h"

namespace hone::train::rloo {

namespace {

learn::PolicyLossOptions options(const config::PolicyPlan& policy) {
  learn::PolicyLossOptions out = policy_loss_options(policy);
  out.loss_type = learn::PolicyLossType::kRloo;
  out.beta = 0;  // it stands in the rewards
  return out;
}

// beta times the KL to the reference is taken off each completion's reward.
learn::Advantages advantages(const RolloutBatch& batch, const learn::RewardTable& rewards,
                             const config::PolicyPlan& policy, std::vector<NamedValue>& metrics) {
  std::vector<double> kl;
  if (policy.beta != 0) {
    const std::vector<std::size_t> all = all_of(batch.samples.size());
    const learn::RlooPenalty penalty = learn::rloo_penalty(batch_tokens(batch, all), options(policy));
    const at::Tensor sums = penalty.sum.contiguous();
    kl.assign(sums.const_data_ptr<double>(), sums.const_data_ptr<double>() + sums.numel());
    metrics.emplace_back("kl", penalty.mean);
  }
  return learn::rloo_advantages(rewards, {.normalize_advantages = policy.normalize_advantages,
                                          .reward_clip_range = policy.reward_clip_range,
                                          .beta = policy.beta,
                                          .kl = kl});
}

std::string loss_line(const config::Plan& plan) {
  return "rloo" + clipped_words(plan.policy) + iteration_words(plan.policy);
}

const SamplingOpening kOpening = group_opening({.options = &options, .advantages = &advantages}, &loss_line);

}  // namespace

MethodOpening row() {
  return {.method = config::Method::kRloo,
          .sampling = &kOpening,
          .rates = {3e-6, 1e-4, 2e-3},
          .experts_balance = ExpertsBalance::kByOption};
}

}  // namespace hone::train::rloo
