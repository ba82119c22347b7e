// One micro-batch of SFT through model and head: forward, loss, and the backward when asked. Only scored rows
// pass through the head, one tile of logits at a time, so that memory does not grow with [T, V].
#pragma once

#include <cstdint>

#include "data/records/record.h"
#include "learn/sft_loss.h"
#include "model/causal_lm.h"
#include "train/passes/batch_pass.h"

namespace hone::train {

struct ScoredFacts {
  double nll_sum = 0;   // -sum of log p over scored tokens
  double loss_sum = 0;  // sum of the loss over them: nll_sum, unless it is another one
  double entropy_sum = 0;
  std::int64_t correct = 0;  // targets that are the first argmax
  std::int64_t scored = 0;
  std::int64_t tokens = 0;
  double balance = 0;  // the load-balancing loss of the routers (model/layers/moe.h)
};

// The loss of a scored token.
struct ScoredLoss {
  learn::SftLoss loss = {};
  at::Tensor mean_row = {};  // ops::mean_row of the head, where loss.smooths()
  double balance = 0;        // the factor of ScoredFacts::balance in what is differentiated
};

// Forward only.
ScoredFacts score_batch(const model::CausalLm& model, const data::Batch& batch, const RngKey& key,
                        const PassForm& form = {}, const ScoredLoss& loss = {});

// Forward and backward of loss_sum / denominator; gradients are added to the adapters'.
ScoredFacts score_and_backward(const model::CausalLm& model, const data::Batch& batch, const RngKey& key,
                               double denominator, const PassForm& form = {}, const ScoredLoss& loss = {});

// Targets in `batch`: the denominator of TRL's loss is this, summed over the optimizer step.
std::int64_t scored_tokens(const data::Batch& batch);

}  // namespace hone::train
