// CPO and ORPO share these (cpo_loss.h, orpo_loss.h): a term of each pair's two log-probabilities, without a
// reference, and the mean negative log-likelihood of chosen, on the tokens of a micro-batch of pairs.
// Sources: get_batch_logps, concatenated_forward and get_batch_loss_metrics of TRL 1.16's experimental
// CPOTrainer and ORPOTrainer.
//
// All arithmetic is fp64 on the CPU. With sums over a sequence's scored tokens:
//
//   c, r = sum_t log p_t of chosen and rejected, or their means
//   nll  = mean of -log p over the chosen sequences' scored tokens of the whole micro-batch and, where given,
//          over the tokens of their prompts
//   loss = mean over pairs of term(c, r) + nll_weight * nll
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hone::learn {

// A micro-batch of B pairs: sequences chosen 0, rejected 0, chosen 1, ... Tensors of any device and floating
// dtype.
struct PairLogprobs {
  std::vector<std::int64_t> scored;  // [2B] scored tokens of each sequence, at least 1; n is their sum
  // [n + m]: sequence by sequence, then m tokens of the chosen sequences' prompts that only the nll has
  at::Tensor logprob;
  at::Tensor mean_logit;  // [n + m], for the metrics; undefined: those metrics are left out
};

// Holds the loss of one pair with its derivatives, and TRL's rewards.
struct PairTerm {
  double loss = 0, d_chosen = 0, d_rejected = 0;
  double reward_chosen = 0, reward_rejected = 0;
};

struct ReferenceFreeOptions {
  bool averages = false;  // c and r are means over tokens
  double nll_weight = 1;  // 0: the nll is neither computed nor shown (it is 0)
  std::function<PairTerm(double chosen, double rejected)> term;
};

struct ReferenceFreeGradient {
  double loss = 0;
  at::Tensor d_logprob;  // [n + m] fp32 on logprob's device
  // (TRL's name, value) of the micro-batch: rewards/chosen, rewards/rejected, rewards/accuracies,
  // rewards/margins, logps/rejected, logps/chosen (means of c and r), logits/rejected, logits/chosen, nll_loss.
  // logits/* are not TRL's, whose mean has every position of a padded batch, padding too: they are the mean
  // logit where a scored token is predicted, as DPO has it.
  std::vector<std::pair<std::string, double>> metrics;
};
ReferenceFreeGradient reference_free_gradient(const PairLogprobs& tokens,
                                              const ReferenceFreeOptions& options);

// log sigmoid(x), without overflow.
double log_sigmoid(double x);

}  // namespace hone::learn
