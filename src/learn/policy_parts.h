// policy_loss.cpp and policy_metrics.cpp share these; they are not for other rooms.
#pragma once

#include "learn/policy_loss.h"

namespace hone::learn::detail {

// A call's tokens in fp64.
struct Parts {
  std::int64_t sequences = 0;
  at::Tensor logprob, old_logprob, log_ratio;  // [n]; old_logprob without gradient
  at::Tensor entropy;                          // [n] or undefined
  at::Tensor m;                                // [n] 0 or 1
  at::Tensor sequence;                         // [n] int64
  at::Tensor advantages, length;               // [S]; scored tokens of each

  // [n] -> [S]: the sum over a sequence's tokens, scored or not. [S] -> [n]: each token's sequence's value.
  at::Tensor sum(const at::Tensor& per_token) const;
  at::Tensor to_tokens(const at::Tensor& per_sequence) const;
};
Parts parts_of(const PolicyTokens& tokens, const PolicyLossOptions& options);

// InternalError unless the tokens have what the terms of the loss are made of: a reference for beta,
// entropies.
void check_terms(const PolicyTokens& tokens, const PolicyLossOptions& options);

// The types with a clipped ratio and its clip_ratio/ metrics.
bool clips_ratio(PolicyLossType type);

// RLOO and GMPO: the loss is one number a sequence, without off-policy mask, sampling_ratio and entropy
// bonus.
bool sums_sequences(PolicyLossType type);

bool corrects_sequences(const PolicyLossOptions& options);
// tokens.sampling_ratio as [n] fp64.
at::Tensor per_token(const Parts& parts, const PolicyTokens& tokens, const PolicyLossOptions& options);

// What the metrics are taken from; undefined where a loss type has none. rho (GMPO: log rho) and advantages
// [n] or [S].
struct Facts {
  at::Tensor rho, advantages;
  bool by_sequence = false;
  at::Tensor kl, phi, high_entropy, policy_loss;
  bool has_policy_loss = false;
};
PolicyMetrics metrics_of(const Parts& parts, const Facts& facts, const PolicyLossOptions& options,
                         const StepTotals& totals);

}  // namespace hone::learn::detail
