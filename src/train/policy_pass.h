// One pass of a policy method through model and head: log-probabilities and entropies of completion tokens,
// and the backward of any loss on them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "learn/policy_loss.h"
#include "model/causal_lm.h"
#include "train/batch_pass.h"
#include "train/policy_batch.h"

namespace hone::train {

// Further values per token that a method needs.
struct ExtraScores {
  // ops::mean_row(head): wanted are PolicyScores::mean_logit and is_top1. Undefined: neither
  at::Tensor mean_row;
  bool squares = false;  // PolicyScores::log_sum_squares
};

// Of the pass's n scored tokens, fp32, on the CPU, where losses are computed; of the full softmax with
// temperature.
struct PolicyScores {
  at::Tensor logprob, entropy;                      // [n]
  at::Tensor is_top1, mean_logit, log_sum_squares;  // [n], where ExtraScores asks for them
};

// Forward only.
PolicyScores score_policy(const model::CausalLm& model, const PolicyPass& pass, const RngKey& key,
                          double temperature, const PassForm& form, const ExtraScores& extra = {});

// Forward, `loss` of its scores, and the backward of loss's d_logprob (and d_entropy, when defined) into the
// adapters' gradients. Scores cross to the host in one copy, gradients in one each. The autograd form takes
// passes without shared prompts.
learn::PolicyGradient train_policy(const model::CausalLm& model, const PolicyPass& pass, const RngKey& key,
                                   double temperature, const PassForm& form,
                                   const std::function<learn::PolicyGradient(const PolicyScores&)>& loss,
                                   const ExtraScores& extra = {});

}  // namespace hone::train
