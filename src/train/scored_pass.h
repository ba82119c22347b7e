// One micro-batch through model and head: forward, loss, and the backward when asked. Only scored rows meet
// the head, whose logits live for one tile at a time, so that memory does not grow with [T, V].
#pragma once

#include <cstdint>

#include "data/example.h"
#include "model/causal_lm.h"
#include "model/explicit_layer.h"
#include "ops/linear.h"

namespace hone::train {

struct ScoredFacts {
  double nll_sum = 0;  // -sum of log p over scored tokens
  double entropy_sum = 0;
  std::int64_t correct = 0;  // targets that are the first argmax
  std::int64_t scored = 0;
  std::int64_t tokens = 0;
};

// What randomness depends on; see ops::PassContext.
struct PassKey {
  bool training = false;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  bool adapters_on = true;  // false: the base alone
};

// Which form of the layer runs (model/explicit_layer.h, or the plain one under autograd), and what it keeps.
struct PassForm {
  bool is_explicit = true;
  model::Recompute recompute = model::Recompute::kCheap;
};

// Forward only.
ScoredFacts score_batch(const model::CausalLm& model, const data::Batch& batch, const PassKey& key,
                        const PassForm& form = {});

// Forward and backward of nll_sum / denominator; gradients are added to the adapters'.
ScoredFacts score_and_backward(const model::CausalLm& model, const data::Batch& batch, const PassKey& key,
                               double denominator, const PassForm& form = {});

// Targets in `batch`: the denominator of TRL's loss is this, summed over the optimizer step.
std::int64_t scored_tokens(const data::Batch& batch);

}  // namespace hone::train
