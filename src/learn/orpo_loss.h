// The loss of TRL 1.16's experimental ORPOTrainer (odds_ratio_loss; arXiv 2403.07691, Eq. 4 to 7). What it
// shares with CPO is in reference_free_loss.h.
//
// For one pair let c and r be the means of its two sequences' log-probabilities over completion tokens, and
// ls = log sigmoid:
//
//   x    = (c - r) - (log(1 - exp c) - log(1 - exp r))      the log odds ratio
//   loss = nll of the chosen sequences, prompts too, - beta * mean over pairs of ls(x)
//   rewards = beta c, beta r
//
// A mean of exactly 0 (a certain completion) counts as -1e-12, since its odds are infinite; TRL's loss is then
// not a number.
#pragma once

#include "learn/loss_parameters.h"
#include "learn/reference_free_loss.h"

namespace hone::learn {

// `tokens` with those of the chosen sequences' prompts, but for each prompt's first. Metrics are those of
// reference_free_loss.h, then log_odds_ratio (mean ls(x)) and log_odds_chosen (mean x).
ReferenceFreeGradient orpo_gradient(const PairLogprobs& tokens, const OrpoLossParameters& options);

}  // namespace hone::learn
