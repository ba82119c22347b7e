#include "train/methods/grpo/grpo.h"

#include <map>

#include "train/opening/opening.h"

namespace hone::train::grpo {

namespace {

learn::PolicyLossType loss_type(const std::string& word) {
  using enum learn::PolicyLossType;
  static const std::map<std::string, learn::PolicyLossType> types = {
      {"grpo", kGrpo},   {"bnpo", kBnpo}, {"dr_grpo", kDrGrpo}, {"dapo", kDapo}, {"cispo", kCispo},
      {"luspo", kLuspo}, {"sapo", kSapo}, {"vespo", kVespo},    {"gmpo", kGmpo}, {"rloo", kRloo}};
  return types.at(word);
}

learn::ScaleRewards scale(const std::string& word) {
  if (word == "batch") return learn::ScaleRewards::kBatch;
  return word == "none" ? learn::ScaleRewards::kNone : learn::ScaleRewards::kGroup;
}

learn::PolicyLossOptions options(const config::PolicyPlan& policy) {
  learn::PolicyLossOptions out = policy_loss_options(policy);
  out.loss_type = loss_type(policy.loss_type);
  return out;
}

learn::Advantages advantages(const RolloutBatch& /*batch*/, const learn::RewardTable& rewards,
                             const config::PolicyPlan& policy, std::vector<NamedValue>& /*metrics*/) {
  return learn::grpo_advantages(rewards,
                                {.scale_rewards = scale(policy.scale_rewards),
                                 .aggregation = policy.multi_objective_aggregation == "normalize_then_sum"
                                                    ? learn::Aggregation::kNormalizeThenSum
                                                    : learn::Aggregation::kSumThenNormalize});
}

std::string loss_line(const config::Plan& plan) {
  const config::PolicyPlan& policy = plan.policy;
  return policy.loss_type + clipped_words(policy) + ", advantages scaled by " + policy.scale_rewards +
         iteration_words(policy);
}

}  // namespace

const SamplingOpening kOpening = group_opening({.options = &options, .advantages = &advantages}, &loss_line);

MethodOpening row() {
  return {.method = config::Method::kGrpo,
          .sampling = &kOpening,
          .rates = {3e-6, 1e-4, 2e-3},
          .experts_balance = ExpertsBalance::kByOption};
}

}  // namespace hone::train::grpo
