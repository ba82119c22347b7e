// Causal attention with grouped queries. First the plain form, differentiable: libtorch's
// scaled_dot_product_attention for each sequence. Then the explicit form over KvTiles.
//
// Shapes: T tokens of all segments, N query heads, K key-value heads (N a multiple of K), D head_dim. All in
// one dtype; softmax in fp32 inside; scale D^-0.5.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "ops/kv_tiles.h"

namespace hone::ops {

// q [T, N, D], k and v [T, K, D] -> [T, N * D]. Attention is causal inside each [begin, end) and never leaves
// it; the segments cover 0..T in order without a gap. Differentiable in q, k, v.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<std::pair<std::int64_t, std::int64_t>>& segments);

constexpr std::int64_t kNoSegment = -1;

// Tokens [begin, end) of one sequence among packed ones. With a prefix, the index of a segment before this
// one that has none itself, they see all of its tokens, then their own causally: a prompt that several
// completions share.
struct AttentionSegment {
  std::int64_t begin = 0, end = 0;
  std::int64_t prefix = kNoSegment;
};

// ---- the explicit form: flash attention (Dao 2022) over tiles of 64 keys, fp32 partials, grouped queries

// Rows [begin, end) of q are consecutive tokens of one sequence. They see all of `before`, in order (a shared
// prompt), and of `own` the first own_offset + i + 1 tokens for row begin + i. `own` already holds them.
struct AttentionRows {
  std::int64_t begin = 0, end = 0;
  std::vector<const KvTiles*> before;
  const KvTiles* own = nullptr;
  std::int64_t own_offset = 0;
};

// q [T, N, D] (rows may be strided, a row's heads are contiguous) -> out [T, N * D] (rows may be strided) and
// lse [T, N] fp32, the natural log sum exp of the scaled scores (may be undefined: not wanted; rows may be
// strided). Sliding windows, when window > 0: the token at place t sees keys t - window + 1 to t, places
// counted over `before` and `own` (whole tiles are skipped).
//
// On the CPU a row's bits do not depend on the other rows of the call, nor on how many rows came at once, nor
// on threads; they depend on the row, the tiles and the instructions. bf16: AVX512-BF16 where D is a multiple
// of 16 and at most 256, probabilities rounded to bf16 for the product with the values; else, and in fp32,
// portable C++ in fp32. Other devices: ATen, without that promise.
void attend_tiles(at::Tensor out, at::Tensor lse, const at::Tensor& q, const std::vector<AttentionRows>& rows,
                  std::int64_t window = 0);

// Gradients of attention in `segments` (in order, covering 0..T without a gap; each sees its prefix, then
// itself causally), from the forward's out and lse. q, k, v as in packed_attention (rows may be strided);
// out, d_out [T, N * D]; dq, dk, dv like q, k, v (rows may be strided: slices of a joined buffer), written,
// not added to; they may lie where q, k and v lie. All in one dtype; sums in fp32.
//
// A shared prompt is exact: with the lse and out of both parts of the keys together, p = exp(s - lse) and
// delta = sum d_out out are those of the whole row, so dq is the sum over both parts, and dk, dv of the
// prompt the sum over its own tokens and all that follow it, in the order of the segments. Neighbouring
// segments with the same prefix are multiplied together. The AVX512-BF16 form gives a segment, or a prompt
// and all that share it, the same bits in any company and on any number of threads: queries in chunks by the
// lengths alone, whose shares of dk and dv are added in order. The plain form (libtorch's products in fp32)
// goes through key-value heads one by one, in blocks of kBackwardQueries queries: its memory grows with a
// segment's length, not with the square.
void packed_attention_backward(at::Tensor dq, at::Tensor dk, at::Tensor dv, const at::Tensor& d_out,
                               const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& out, const at::Tensor& lse,
                               const std::vector<AttentionSegment>& segments);

constexpr std::int64_t kBackwardQueries = 256;

// What packed_attention_backward takes beside its arguments, at most, in bytes.
struct AttentionSizes {
  std::int64_t tokens = 0, longest = 0;  // of all segments together, and of the longest
  // Of the longest prefix, and of all neighbouring segments that share one, together; 0 without prefixes.
  std::int64_t prefix = 0, sharing = 0;
  std::int64_t heads = 1, kv_heads = 1, head_dim = 0;
  std::int64_t threads = 1;
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
};
std::int64_t packed_attention_backward_bytes(const AttentionSizes& sizes);

}  // namespace hone::ops
