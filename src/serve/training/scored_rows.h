// The head of a training pass: log-probabilities of targets, and the gradient of what is trained of the head
// and of the hidden rows. With a LoRA on the head, too, no [N, V] tensor is kept: rows go through it in
// tiles.
//
// The log-probabilities are those of the sampler (rollout/engine.h) in every bit, where products are hone's
// own kernels.
//
// Shapes: N rows, K targets of each, H hidden, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "data/records/record.h"
#include "model/causal_lm.h"

namespace hone::serve {

// A pass over one sequence of tokens, from position 0.
data::Batch one_sequence(const std::vector<std::int32_t>& tokens);

struct RowTargets {
  std::int64_t columns = 1;           // K
  std::vector<std::int64_t> targets;  // [N K], row by row
  std::vector<bool> has_gradient;     // [N K]; false: its derivative is 0. Empty: none has one
};

// [N K] log p(target), temperature 1, of hidden [N, H] in the head's dtype; [N K] d loss / d of these from
// it, or nothing for forward alone. The gradient of a LoRA on the head is added to its .grad. Returns d loss
// / d hidden [N, H] fp32, undefined without a derivative.
using DerivativeOf = std::function<std::vector<float>(const std::vector<float>& logprobs)>;
at::Tensor score_rows(const model::CausalLm& model, const at::Tensor& hidden, const RowTargets& targets,
                      const DerivativeOf& derivative_of);

}  // namespace hone::serve
