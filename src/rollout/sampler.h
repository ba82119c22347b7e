// From logits to the next token: greedy, or temperature with top-k and top-p, in transformers' order of
// warpers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/rng.h"

namespace hone::rollout {

struct SamplerOptions {
  double temperature = 0;  // 0: greedy
  std::int64_t top_k = 0;  // 0: off
  double top_p = 1.0;      // 1: off
};

// logits [V] fp32 of one sequence; `uniform` in [0, 1) decides. Greedy takes the first argmax.
std::int64_t sample_token(const at::Tensor& logits, const SamplerOptions& options, float uniform);

}  // namespace hone::rollout
