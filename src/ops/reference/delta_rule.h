// The gated delta rule in ATen (ops/delta_rule.h), for one sequence on any device.
#pragma once

#include "ops/delta_rule.h"

namespace hone::ops::delta {

// What the next tokens of a sequence need; undefined at its begin.
struct Carried {
  at::Tensor inputs;  // [at most L - 1, C], the newest last
  at::Tensor values;  // S [V, D, E], fp32 or fp64
};

// The next tokens, in [n, C + V E + 2 V] -> out [n, V E]; `carried` is brought to their end. Differentiable.
at::Tensor in_chunks(const at::Tensor& in, const DeltaWeights& weights, const DeltaShape& shape,
                     Carried& carried);

// delta_rule_backward() by autograd.
void backward_in_chunks(const at::Tensor& in, const at::Tensor& d, const DeltaWeights& weights,
                        const DeltaShape& shape, const std::vector<AttentionSegment>& segments,
                        const DeltaGradients& gradients);

}  // namespace hone::ops::delta
