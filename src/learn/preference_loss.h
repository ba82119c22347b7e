// The preference losses of TRL 1.16's DPOTrainer (its _compute_loss) on the log-probabilities of a
// micro-batch of pairs. They return d loss / d logprob [n], from which the model's backward computes the
// gradients of weights.
//
// All arithmetic is fp64 on the CPU (n numbers cost nothing compared with a model). Per pair, with sums over a
// completion's scored tokens (its tokens, but the very first of a sequence without a prompt, which nothing
// predicts):
//
//   logp   = sum_t w_t log p_t;  w_t = 1, or with ld_alpha (LD-DPO): 1 up to the shorter completion's
//            length, ld_alpha beyond
//   c, r   = logp - reference logp, of chosen and rejected
//   s_c, s_r = f(c), f(r):  reverse_kl x;  forward_kl 1 - exp(-x);  js_divergence log 2 + log sigmoid(x);
//              alpha_divergence (exp((a - 1) x) - 1) / (a - 1), the exponent at most 80; x where
//              |a - 1| < 1e-6
//   D      = s_c - s_r;  |c|, |r| = completion tokens, unscored ones too, at least 1
//   b = beta, e = label_smoothing, ls = log sigmoid, sg = sigmoid
//
//   sigmoid       -ls(b D)                              hinge         max(0, 1 - b D)
//   sigmoid_norm  -ls(b (s_c/|c| - s_r/|r|))            ipo           (s_c/|c| - s_r/|r| - 1 / (2 b))^2
//   exo_pair      sg(b D) (ls(b D) - log(1 - e)) + sg(-b D) (ls(-b D) - log e)
//   robust        (-(1 - e) ls(b D) + e ls(-b D)) / (1 - 2 e)
//   nca_pair      -ls(b c) - ls(-b c) / 2 - ls(-b r) / 2
//   bco_pair      -ls(b c) - ls(-b r)
//   sppo_hard     (c - 1 / (2 b))^2 + (r + 1 / (2 b))^2
//   aot           -(1 - e) ls(b d) - e ls(-b d), d = sort(logp_c - logp_r) - sort(the reference's), over
//                 the micro-batch
//   aot_unpaired  the same, d = sort(c) - sort(r)
//   apo_zero      1 - sg(b c) + sg(b r)
//   apo_down      sg(b c) + 1 - sg(b (c - r))
//   discopop      u = b D, m = sg(u / discopop_tau): -ls(u) (1 - m) + exp(-u) m
//   sft           mean -log p over the chosen tokens of the micro-batch, one number for every pair
//
//   use_weighting (WPO): times exp(mean_t(log p - log sum_v p_v^2)) of chosen and of rejected, without
//   gradient
//   loss = sum over terms of weight * mean over pairs
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "learn/loss_parameters.h"

namespace hone::learn {

enum class PreferenceLossType {
  kSigmoid,
  kHinge,
  kIpo,
  kExoPair,
  kNcaPair,
  kRobust,
  kBcoPair,
  kSppoHard,
  kAot,
  kAotUnpaired,
  kApoZero,
  kApoDown,
  kDiscopop,
  kSft,
  kSigmoidNorm
};
enum class FDivergence { kReverseKl, kForwardKl, kJsDivergence, kAlphaDivergence };

// By TRL's names; InternalError for others (config/ knows the names).
PreferenceLossType preference_loss_type(std::string_view name);
FDivergence f_divergence(std::string_view name);

struct PreferenceTerm {
  PreferenceLossType type = PreferenceLossType::kSigmoid;
  double weight = 1;
};

// TRL's options and defaults (DPOConfig).
struct PreferenceLossOptions : PreferenceLossParameters {
  std::vector<PreferenceTerm> terms = {{}};
  FDivergence f_divergence = FDivergence::kReverseKl;
};

// A micro-batch of B pairs: sequences chosen 0, rejected 0, chosen 1, ... Tensors of any device and floating
// dtype.
struct PreferenceTokens {
  std::vector<std::int64_t> scored;      // [2B] scored tokens of each sequence; n is their sum
  std::vector<std::int64_t> completion;  // [2B] completion tokens, unscored ones too
  at::Tensor reference;                  // [2B] sum_logps() of the reference
  at::Tensor logprob;                    // [n], sequence by sequence
  at::Tensor log_sum_squares;            // [n] log sum_v p_v^2; needed only by use_weighting
  // For the metrics, [n] each; undefined: those metrics are left out.
  at::Tensor entropy, mean_logit, is_top1;
};

// logp of each sequence, [2B] fp64 on the CPU.
at::Tensor sum_logps(const at::Tensor& logprob, const std::vector<std::int64_t>& scored,
                     std::optional<double> ld_alpha);

struct PreferenceGradient {
  double loss = 0;
  at::Tensor d_logprob;  // [n] fp32 on logprob's device
  // (TRL's name, value) of the micro-batch: entropy, logits/chosen, logits/rejected, mean_token_accuracy (of
  // the chosen), rewards/chosen, rewards/rejected (beta c, beta r), rewards/accuracies, rewards/margins,
  // logps/chosen, logps/rejected.
  std::vector<std::pair<std::string, double>> metrics;
};
PreferenceGradient preference_gradient(const PreferenceTokens& tokens, const PreferenceLossOptions& options);

}  // namespace hone::learn
