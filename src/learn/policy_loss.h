// The policy losses of TRL 1.16's GRPOTrainer, RLOOTrainer and GMPOTrainer (their _compute_loss), on packed
// tokens: the completions of an optimizer step, or of a part of it, concatenated without padding. They return
// d loss / d logprob [n], from which the model's backward computes the gradients of weights.
//
// All arithmetic is fp64 (n numbers cost nothing compared with a model), so that loss and gradient depend on
// how a step is cut into parts only in the last digit of fp32. Tensors of a call are on one device.
//
// Written l_t = logprob, o_t = old logprob, r_t = reference logprob, m_t = 1 for a scored token, A =
// advantage of the sequence, |i| = scored tokens of sequence i, sg = without gradient. Names in brackets are
// TRL's.
//
//   log ratio   token level: l_t - o_t
//               sequence level (GSPO): sum_t m (l - o) / max(1, |i|), one a sequence
//   rho         exp(log ratio)  [coef_1]; exactly 1 where no old logprob is given: it is then sg(l)
//   KL_t        exp(r - l) - (r - l) - 1, times rho (with its gradient) where use_bias_correction_kl
//
//   loss type                     L_t
//   grpo bnpo dr_grpo dapo luspo  -min(min(rho, delta) A, clip(rho, 1 - epsilon, 1 + epsilon_high) A)
//   cispo                         -sg(min(rho, epsilon_high)) A l   (epsilon_high itself is the cap)
//   sapo                          -4 / tau sigmoid(tau (rho - 1)) A
//                                 tau = sapo_temperature_pos where A > 0, else sapo_temperature_neg
//   vespo                         -phi A l  [get_gamma_weights]
//                                 phi = sg exp(lambda + k log w - lambda w), NaN and infinite -> 0
//                                 log w = clamp(sum_t m clamp(l - o, -20, 20) + sum_t log c_t, b, 20)
//                                 b = log 1e-8, c = sampling_ratio, log c clamped to [b, 20]
//                                 k, lambda = vespo_*_pos where A >= 0, else vespo_*_neg
//
//   then, in this order:
//   * off-policy mask [get_off_policy_mask], where a threshold is set: keeps sequences with A >= 0 or
//     sum_t m (s - sg l) / max(1, |i|) <= threshold; s = sampling logprob (difference 0 where it is NaN),
//     or o without one
//   * entropy mask [get_high_entropy_mask], where top_entropy_quantile < 1: H_t >= quantile(H, 1 - top)
//   * sampling_ratio, but not for vespo
//   + beta KL_t, which neither mask touches
//
//   loss type         loss = sum_t m_t L_t / D;  N = sequences, masked and empty ones too
//   grpo sapo         D = max(1, |i|) N
//   bnpo              D = max(1, tokens)
//   dr_grpo           D = max_completion_length N
//   luspo             D = N
//   dapo cispo vespo  D = max(1, tokens of the generation batch) N / (sequences of the generation batch)
//                     [num_items_in_batch current_gradient_accumulation_steps / steps_per_generation]
//   rloo              sum_i -min(rho_i A, clip(rho_i) A) / N;  rho_i = exp(sum_t m (l - o)), not a mean
//                     (of the options only epsilon, epsilon_high and mask_truncated_completions matter)
//   gmpo              sum_i (-exp(sum_t e c / max(1, sum_t e)) A + beta sum_t m KL / max(1, |i|)) / N
//                     the geometric mean of clipped ratios [experimental/gmpo/gmpo_trainer.py]
//                     c = min(l - o, epsilon_high) where A > 0, else max(l - o, -epsilon); e = m times the
//                     entropy mask; KL without rho
//                     (of the options only these, beta, top_entropy_quantile and mask_truncated_completions
//                     matter)
//
//   entropy bonus: - entropy_coef sum_t e_t H_t / max(1, sum_t e_t),  e = m times the entropy mask
//
// N, tokens and quantile are those of the whole optimizer step (Span::kStep, the default): the loss of a step
// is then the sum of its parts' losses, whatever the parts. TRL takes them of each micro-batch and divides by
// the number of micro-batches (Span::kMicroBatch). With micro-batches of equally many sequences the two are
// the same number but for bnpo, top_entropy_quantile and the entropy bonus, whose kMicroBatch form depends on
// how tokens happen to fall into micro-batches. TRL's own numbers for these three: Span::kMicroBatch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "learn/loss_parameters.h"

namespace hone::learn {

enum class PolicyLossType { kGrpo, kBnpo, kDrGrpo, kDapo, kCispo, kLuspo, kSapo, kVespo, kRloo, kGmpo };
enum class ImportanceLevel { kToken, kSequence };  // importance_sampling_level
enum class Span { kStep, kMicroBatch };

// vllm_importance_sampling_mode. kNone: sampler and trainer are taken to be the same distribution.
enum class SamplingCorrection { kNone, kTokenMask, kTokenTruncate, kSequenceMask, kSequenceTruncate };

// TRL's options and defaults (GRPOConfig), but sampling_correction, which TRL has on under vLLM only. entropy_coef
// is the step's; 0: no bonus.
struct PolicyLossOptions : PolicyLossParameters {
  PolicyLossType loss_type = PolicyLossType::kDapo;
  ImportanceLevel importance_level = ImportanceLevel::kToken;
  SamplingCorrection sampling_correction = SamplingCorrection::kNone;
  bool entropy_bonus = false;  // there is one, though entropy_coef is 0 just now (adaptive): its metrics
  double max_completion_length = 512;  // dr_grpo
  Span span = Span::kStep;
};

// Scored tokens of S sequences, in any order. Floating tensors fp32 or fp64; "undefined" is allowed where
// said. A sequence without tokens still counts as one, as TRL's fully masked rows do: tokens of truncated
// completions may be left out instead of masked, and give the same numbers. What is masked must be finite.
struct PolicyTokens {
  at::Tensor logprob;      // [n] of the tempered full softmax; differentiable
  at::Tensor old_logprob;  // [n] when generated; undefined: sg(logprob), every ratio is 1
  at::Tensor ref_logprob;  // [n]; undefined where beta is 0
  // [n] of the sampler's processed distribution, NaN where unknown; for the off-policy mask and
  // sampling_ratio(), or undefined.
  at::Tensor sampling_logprob;
  // sampling_ratio()'s: [n] (token modes) or [S] (sequence modes); undefined with SamplingCorrection::kNone.
  at::Tensor sampling_ratio;
  at::Tensor entropy;   // [n] nats; undefined: no entropy metric, mask or bonus. Differentiable for the bonus
  at::Tensor mask;      // [n] 1 scored, 0 not (TRL's tool_mask); undefined: all scored
  at::Tensor sequence;  // [n] int64, 0 to S - 1
  at::Tensor advantages;  // [S]
  at::Tensor truncated;   // [S] bool: ended without an end token; undefined: none
};

// The whole that a call is a part of. With one process and equal micro-batches these are TRL's numbers.
struct StepTotals {
  double sequences = 0;             // of the optimizer step
  double tokens = 0;                // scored tokens of the optimizer step
  double generation_sequences = 0;  // of the generation batch, which may feed several optimizer steps
  double generation_tokens = 0;     // num_items_in_batch
  double micro_batches = 1;         // Span::kMicroBatch: current_gradient_accumulation_steps
  // Span::kStep with top_entropy_quantile < 1, from top_entropy(): needed before the first part's backward,
  // so the entropies are those of a pass before it (the old logprobs' pass, or the rollout's own).
  double entropy_threshold = std::numeric_limits<double>::quiet_NaN();
  double high_entropy_tokens = 0;
};

// Totals of a step whose tokens are all here and are a whole generation batch: tests and small programs.
StepTotals totals_of(const PolicyTokens& step, const PolicyLossOptions& options);

// The entropy that the top share `top_quantile` of scored tokens reaches, torch.quantile(H in fp32, 1 - top),
// and how many reach it. entropy, scored [n]; without tokens: infinity and 0. At most 16 million tokens.
std::pair<double, double> top_entropy(const at::Tensor& entropy, const at::Tensor& scored,
                                      double top_quantile);

// m_t [n] fp64: mask, and 0 where the sequence is truncated under mask_truncated_completions.
at::Tensor scored_tokens(const PolicyTokens& tokens, const PolicyLossOptions& options);

// Means kept as sum and count, so that parts of a step can be pooled.
struct Pooled {
  double sum = 0, count = 0;
  double value() const { return sum / (count < 1 ? 1 : count); }
};

// Holds what TRL logs of a micro-batch. Sequence level: clip ratios are means over sequences, not tokens.
struct PolicyMetrics {
  PolicyLossType loss_type = PolicyLossType::kDapo;
  bool has_kl = false, has_entropy = false, has_policy_loss = false;
  Pooled kl, entropy;
  // rho < 1 - epsilon and A < 0; rho > 1 + epsilon_high and A > 0. GMPO: log rho, and without the 1.
  Pooled clip_low, clip_high, clip_region;
  double clip_low_min = std::numeric_limits<double>::quiet_NaN();  // over sequences with tokens; NaN: none
  double clip_high_max = std::numeric_limits<double>::quiet_NaN();
  Pooled cispo_clip, vespo_phi;
  double policy_loss = 0;  // before the entropy bonus. kMicroBatch: TRL's; kStep: this part's share
  Pooled high_entropy;     // entropies under the bonus: TRL's adaptive entropy_coef controls their mean

  // Adds another part of the same step. TRL instead averages the micro-batches' values at log time, which
  // is the same where parts hold equally many tokens (and takes the mean of the minima, not the minimum).
  void add(const PolicyMetrics& part);
  // (TRL's name, value), those that TRL would log: kl, entropy, policy_loss, clip_ratio/low_mean, /low_min,
  // /high_mean, /high_max, /region_mean, cispo_clip_ratio, vespo/phi_seq_mean.
  std::vector<std::pair<std::string, double>> named() const;
};

struct PolicyLoss {
  at::Tensor loss;  // scalar fp64, differentiable in logprob (and in entropy where there is a bonus)
  PolicyMetrics metrics;
};
PolicyLoss policy_loss(const PolicyTokens& tokens, const PolicyLossOptions& options,
                       const StepTotals& totals);

// The same and its gradients, without leaving a graph behind: what the hot path calls.
struct PolicyGradient {
  double loss = 0;
  at::Tensor d_logprob;  // [n] fp32
  at::Tensor d_entropy;  // [n] fp32; undefined without a bonus
  PolicyMetrics metrics;
};
PolicyGradient policy_gradient(const PolicyTokens& tokens, const PolicyLossOptions& options,
                               const StepTotals& totals);

// [S] bool: sequences whose gradient is exactly 0, so that their backward can be left out. Advantage 0
// without KL and bonus; truncated under mask_truncated_completions; a sampling_ratio of the sequence that is
// 0, without KL and bonus. TRL computes them all.
at::Tensor sequences_without_gradient(const PolicyTokens& tokens, const PolicyLossOptions& options);

// TRL's correction of the gap between sampler and trainer (_generate_and_score_completions), once for a
// generation batch. d_t = m (o - s), 0 where s is NaN; token modes: exp(d_t) [n]; sequence modes:
// exp(sum_t d_t) [S]. Truncate: clamped to [clip_min, clip_max]; mask: 0 outside them. An unset bound is
// none. old_logprob undefined: logprob. Metrics are TRL's sampling/..., 0 where nothing can be compared.
struct SamplingRatio {
  at::Tensor ratio;                                          // fp64
  double logp_difference_mean = 0, logp_difference_max = 0;  // sampling/sampling_logp_difference/*: |o - s|
  double ratio_min = 0, ratio_mean = 0, ratio_max = 0;       // sampling/importance_sampling_ratio/*
};
SamplingRatio sampling_ratio(const PolicyTokens& tokens, const PolicyLossOptions& options);

// RLOO's KL penalty (k1): sum_t m (o - r) a sequence, [S] fp64, for RlooAdvantageOptions::kl; its metric `kl`
// is `mean`, over tokens.
struct RlooPenalty {
  at::Tensor sum;
  double mean = 0;
};
RlooPenalty rloo_penalty(const PolicyTokens& tokens, const PolicyLossOptions& options);

}  // namespace hone::learn
