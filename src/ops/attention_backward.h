// The two forms of packed_attention_backward. Internal to it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/cpu/attention_runs.h"

namespace hone::ops {

// packed_attention_backward's arguments.
struct AttentionBackward {
  at::Tensor dq, dk, dv, d_out, q, k, v, out, lse;
  const std::vector<AttentionSegment>& segments;
  AttentionRule rule;
};

void attention_backward_aten(const AttentionBackward& x, const std::vector<Family>& families);
std::int64_t attention_backward_aten_bytes(const AttentionSizes& sizes);

bool attention_backward_has_kernel(at::ScalarType dtype, std::int64_t head_dim);  // on this machine's CPU
void attention_backward_fast(const AttentionBackward& x, const std::vector<Family>& families);
std::int64_t attention_backward_fast_bytes(const AttentionSizes& sizes);

}  // namespace hone::ops
