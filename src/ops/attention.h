// Causal attention with grouped queries, in plain form: libtorch's scaled_dot_product_attention for each
// sequence.
//
// Shapes: T tokens of all segments, N query heads, K key-value heads (N a multiple of K), D head_dim. All in
// one dtype; softmax in fp32 inside; scale D^-0.5.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace hone::ops {

// q [T, N, D], k and v [T, K, D] -> [T, N * D]. Attention is causal inside each [begin, end) and never leaves
// it; the segments cover 0..T in order without a gap. Differentiable in q, k, v.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<std::pair<std::int64_t, std::int64_t>>& segments);

// One sequence in generation: q [n, N, D] holds its last n tokens, k and v [L, K, D] all L >= n -> [n, N *
// D].
at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

}  // namespace hone::ops
