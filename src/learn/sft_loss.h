// SFT's losses: TRL 1.16 SFTTrainer.compute_loss, sums over scored tokens / N (docs/design.md, SFT's loss).
//
//   nll              -log p(target)
//   dft              -p(target) log p(target), p without gradient: Dynamic Fine-Tuning, arXiv 2508.05629
//   nll, smoothing e -(1 - e) log p(target) - e mean_v log p(v): transformers' LabelSmoother, by
//                    label_smoothing_factor; dft ignores it, as in TRL
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::learn {

enum class SftLossType { kNll, kDft };

struct SftLoss {
  SftLossType type = SftLossType::kNll;
  double label_smoothing = 0;  // 0..1; nll only

  bool smooths() const { return type == SftLossType::kNll && label_smoothing > 0; }
};

// Per-token facts of scored rows, all [n] fp32 without gradient except logprob.
struct TokenFacts {
  at::Tensor logprob;  // log p(target), differentiable
  at::Tensor entropy;  // of the full softmax
  at::Tensor is_top1;  // 1 where the target is the first argmax
};

// logits [n, V] fp32, targets [n] int64.
TokenFacts token_facts(const at::Tensor& logits, const at::Tensor& targets);

// mean_v log p(v) of each row of logits [n, V] -> [n], differentiable. Only smoothing needs it.
at::Tensor mean_logprob(const at::Tensor& logits);

// The loss of each token, [n] fp32, differentiable in its arguments: log-probabilities of the targets [n], and
// where loss.smooths() the mean log-probability of the vocabulary [n] (else it may be undefined).
at::Tensor token_loss(const SftLoss& loss, const at::Tensor& logprob, const at::Tensor& mean_logprob = {});

// The sum of losses [n] / denominator, a scalar; the denominator is the number of scored tokens of the whole
// optimizer step.
at::Tensor mean_loss(const at::Tensor& losses, double denominator);

}  // namespace hone::learn
