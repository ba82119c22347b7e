// The forms of packed_attention_backward are called with this.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/backend/attention_runs.h"

namespace hone::ops {

// packed_attention_backward's arguments.
struct AttentionBackward {
  at::Tensor dq, dk, dv, d_out, q, k, v, out, lse;
  const std::vector<AttentionSegment>& segments;
  AttentionRule rule;
};

}  // namespace hone::ops
