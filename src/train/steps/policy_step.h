// From a generation batch and its rewards to what the policy loss takes: advantages, reference
// log-probabilities, sampling ratios, TRL's metrics of the batch; and the tokens of some of its samples as
// tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "config/plan.h"
#include "learn/advantages.h"
#include "learn/policy_loss.h"
#include "train/batches/rollout_batch.h"
#include "train/facts/step_facts.h"
#include "train/passes/policy_pass.h"

namespace hone::train {

// Holds what differs between GRPO and RLOO.
struct GroupLoss {
  learn::PolicyLossOptions (*options)(const config::PolicyPlan&);
  // Computes the advantages from the rewards of a generation batch; what the method logs besides is added to
  // `metrics`.
  learn::Advantages (*advantages)(const RolloutBatch& batch, const learn::RewardTable& rewards,
                                  const config::PolicyPlan& policy, std::vector<NamedValue>& metrics);
};

// The fields that both take as they are; loss_type is the method's.
learn::PolicyLossOptions policy_loss_options(const config::PolicyPlan& policy);

// Tokens of `samples` with what was recorded and computed of them, but for the pass's own scores.
learn::PolicyTokens batch_tokens(const RolloutBatch& batch, std::span<const std::size_t> samples);

// A generation batch ready to be trained on.
struct ScoredRollouts {
  RolloutBatch batch;                      // advantages filled in
  std::vector<NamedValue> metrics;         // TRL's of the batch, and dead_groups
  std::vector<at::Tensor> sampling_ratio;  // fp64, a sample: [1] or [tokens]; empty without correction
  std::int64_t unscorable = 0;             // samples that no reward function scored: advantage 0
  double generation_tokens = 0;            // scored ones: num_items_in_batch
  std::int64_t tokens = 0;                 // prompts and completions, as TRL counts num_tokens
};

// Advantages and metrics of rewards, log-probabilities of the reference where beta needs them (`reference`
// gives those of the samples, in order, when the batch has none). `group` is num_generations, 1 in some
// evaluations.
ScoredRollouts score_rollouts(RolloutBatch batch, const config::PolicyPlan& policy, const GroupLoss& loss,
                              std::int64_t group, const std::function<void(RolloutBatch&)>& reference);

// Tokens of `samples` as the loss takes them; logprob and entropy are the pass's own. `with_old` false: the
// ratio is exactly 1.
learn::PolicyTokens policy_tokens(const ScoredRollouts& rollouts, std::span<const std::size_t> samples,
                                  const TokenScores& scores, bool with_old, const config::PolicyPlan& policy);

// What was recorded when the samples were drawn, as scores; undefined tensors when something is missing.
TokenScores recorded_scores(const RolloutBatch& batch, std::span<const std::size_t> samples);

// TRL's completions/* of some samples.
void add_length_metrics(const RolloutBatch& batch, std::span<const std::size_t> samples,
                        std::vector<NamedValue>& metrics);

// Calls a sample, and the share of them that failed, as TRL has them; nothing without tools.
void add_tool_metrics(const RolloutBatch& batch, std::span<const std::size_t> samples,
                      std::vector<NamedValue>& metrics);

// Tokens that count in the loss: all but those of truncated completions under mask_truncated_completions.
double scored_tokens(const RolloutBatch& batch, std::span<const std::size_t> samples,
                     const config::PolicyPlan& policy);

}  // namespace hone::train
