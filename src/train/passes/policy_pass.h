// One pass of a policy method through model and head: log-probabilities and entropies of completion tokens,
// and the backward of any loss on them.
#pragma once

#include <functional>

#include "learn/policy_loss.h"
#include "model/causal_lm.h"
#include "train/passes/batch_pass.h"
#include "train/passes/head_pass.h"
#include "train/passes/policy_batch.h"

namespace hone::train {

// `balance` below: the factor of the load-balancing loss of the pass's routers in what is differentiated, or 0; then
// TokenScores::balance is 0 too.

// The scores of the pass's n scored tokens, on the CPU, where losses are computed. Forward only.
TokenScores score_policy(const model::CausalLm& model, const PolicyPass& pass, const RngKey& key,
                         const PassForm& form, const HeadOptions& options = {}, double balance = 0);

// Forward, `loss` of its scores, and the backward of loss's d_logprob (and d_entropy, when defined) into the
// gradients of what is trained. Scores cross to the host in one copy, gradients in one each. The autograd form takes
// passes without shared prompts.
learn::PolicyGradient train_policy(const model::CausalLm& model, const PolicyPass& pass, const RngKey& key,
                                   const PassForm& form, const HeadOptions& options,
                                   const std::function<learn::PolicyGradient(const TokenScores&)>& loss,
                                   double balance = 0);

}  // namespace hone::train
