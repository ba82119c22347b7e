// The rows of a pass that are scored, on their way through the head and back: from hidden rows to the log-probabilities
// and entropies of their targets, and from a loss of these to all that is trained. Every method with a vocabulary head
// uses it.
//
// The head takes one of two forms. The fused form walks the vocabulary in tiles (ops/head/linear_logprob.h): one
// product gives scores and d log p / d hidden, and no logits are kept. The autograd form, of autograd passes, makes the
// logits of kHeadTile rows at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "model/causal_lm.h"
#include "train/passes/batch_pass.h"

namespace hone::train {

// Holds the scores of n tokens, [n] fp32; of the full softmax with temperature.
struct TokenScores {
  at::Tensor logprob, entropy;
  at::Tensor is_top1;  // 1 where the target is the first argmax; where HeadOptions asks for it
  at::Tensor mean_logit, log_sum_squares;  // where HeadOptions asks for them
  at::Tensor mean_logprob;                 // mean_v log p(v); where HeadOptions asks for it
  double balance = 0;  // the load-balancing loss of the pass's routers, of score_policy() and train_policy()
};

struct HeadOptions {
  double temperature = 1;
  // ops::mean_row(head): wanted are TokenScores::mean_logit and is_top1. Undefined: neither.
  at::Tensor mean_row = {};
  bool squares = false;       // TokenScores::log_sum_squares
  bool mean_logprob = false;  // TokenScores::mean_logprob, of mean_row; at temperature 1
  // The loss is a sum over tokens: it may be made of the rows in parts, and entropies have no gradient. is_top1 is there.
  bool by_token = false;
};

// Holds what a loss says of n scores, [n] fp32 on the scores' device.
struct HeadGradient {
  at::Tensor d_logprob;
  at::Tensor d_entropy = {};  // or undefined
  // Of label smoothing: d loss / d logprob is d_logprob + smoothing, and d loss / d mean_logprob is -smoothing.
  double smoothing = 0;
  at::Tensor loss = {};  // by_token: all of that as a scalar, differentiable where the scores are
};
using LossOfScores = std::function<HeadGradient(const TokenScores&)>;

class HeadPass {
 public:
  // `source` [n]: the tokens of the pass's batch that predict `target` [n]. `model` and `pass` must outlive it. Runs the
  // pass's forward; `trains`: backward() will be called.
  HeadPass(const model::CausalLm& model, BatchPass& pass, const std::vector<std::int64_t>& source,
           const std::vector<std::int64_t>& target, HeadOptions options, bool trains);

  // The scores, on the model's device, without gradient: in order, of all rows at once, or with by_token in parts.
  void score(const std::function<void(const TokenScores&)>& see);
  // The scores, and the backward of what `loss` says of them plus `balance` times the routers' load-balancing loss;
  // gradients are added to those of all that is trained. Once.
  void backward(const LossOfScores& loss, double balance = 0);

 private:
  template <typename Use>
  void each_tile(const Use& use);
  TokenScores tile_scores(const at::Tensor& logits, const at::Tensor& target) const;
  TokenScores scores_by_tiles();
  at::Tensor backward_by_tiles(const LossOfScores& loss);
  at::Tensor backward_fused(const LossOfScores& loss);

  const model::CausalLm& model_;
  BatchPass& pass_;
  HeadOptions options_;
  at::Tensor hidden_;  // [n, H]
  at::Tensor target_;  // [n]
  bool is_fused_;
};

}  // namespace hone::train
