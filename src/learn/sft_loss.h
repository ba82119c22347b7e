// SFT's loss: TRL 1.16 SFTTrainer loss_type "nll", sum over scored tokens / N
// (docs/design.md, SFT's loss).
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::learn {

// Per-token facts of scored rows, all [n] fp32 without gradient except logprob.
struct TokenFacts {
  at::Tensor logprob;  // log p(target), differentiable
  at::Tensor entropy;  // of the full softmax
  at::Tensor is_top1;  // 1 where the target is the first argmax
};

// logits [n, V] fp32, targets [n] int64.
TokenFacts token_facts(const at::Tensor& logits, const at::Tensor& targets);

// -sum(logprob) / denominator, a scalar; the denominator is the number of scored tokens of the whole
// optimizer step.
at::Tensor nll_loss(const at::Tensor& logprob, double denominator);

}  // namespace hone::learn
