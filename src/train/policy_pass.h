// One pass of a policy method through model and head: log-probabilities and entropies of completion tokens,
// and the backward of whatever loss is made of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "learn/policy_loss.h"
#include "model/causal_lm.h"
#include "train/policy_batch.h"
#include "train/scored_pass.h"

namespace hone::train {

// Of the pass's n scored tokens, fp32; the tempered full softmax.
struct PolicyScores {
  at::Tensor logprob, entropy;  // [n]
};

// Forward only; `adapters_on` false is the reference model.
PolicyScores score_policy(const model::CausalLm& model, const PolicyPass& pass, const PassKey& key,
                          double temperature, const PassForm& form, bool adapters_on = true);

// Forward, `loss` of its scores, and the backward of loss's d_logprob (and d_entropy, when defined) into the
// adapters' gradients. The plain form takes passes without shared prompts.
learn::PolicyGradient train_policy(const model::CausalLm& model, const PolicyPass& pass, const PassKey& key,
                                   double temperature, const PassForm& form,
                                   const std::function<learn::PolicyGradient(const PolicyScores&)>& loss);

}  // namespace hone::train
