// Causal attention with grouped queries. First the autograd form: libtorch's scaled_dot_product_attention for
// each sequence. Then the fused form over KvTiles.
//
// Shapes: T tokens of all segments, N query heads, K key-value heads (N a multiple of K), D head_dim. All in
// one dtype; softmax in fp32 inside.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "ops/kv_tiles.h"

namespace hone::ops {

// What differs between layers: which keys a query sees, and how scores are scaled.
struct AttentionRule {
  // > 0: the token at position t of its sequence attends to keys t - window + 1 to t; 0: to all up to t.
  std::int64_t window = 0;
  double scale = 0;  // of the products of queries and keys; 0: D^-0.5
  double soft_cap =
      0;  // > 0: a scaled score s becomes soft_cap tanh(s / soft_cap), before the window hides any
};

// q [T, N, D], k and v [T, K, D] -> [T, N * D]. Attention is causal inside each [begin, end) and never leaves
// it; the segments cover 0..T in order without a gap. Differentiable in q, k, v.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<std::pair<std::int64_t, std::int64_t>>& segments,
                            const AttentionRule& rule = {});

constexpr std::int64_t kNoSegment = -1;

// Tokens [begin, end) of one sequence in a packed batch. `prefix` is the index of an earlier segment that has
// no prefix itself: these tokens attend to all of its tokens, then to their own causally. This is how several
// completions share a prompt.
struct AttentionSegment {
  std::int64_t begin = 0, end = 0;
  std::int64_t prefix = kNoSegment;
};

// ---- the fused form: flash attention (Dao 2022) over tiles of 64 keys, fp32 partials, grouped queries

// Rows [begin, end) of q are consecutive tokens of one sequence. Row begin + i attends to all of `before`, in
// order (a shared prompt), and to the first own_offset + i + 1 tokens of `own`, which already holds them.
struct AttentionRows {
  std::int64_t begin = 0, end = 0;
  std::vector<const KvTiles*> before;
  const KvTiles* own = nullptr;
  std::int64_t own_offset = 0;
};

// q [T, N, D] (rows may be strided, a row's heads are contiguous) -> out [T, N * D] (rows may be strided) and
// lse [T, N] fp32, the natural log-sum-exp of the scaled and capped scores (undefined: not wanted; rows may be strided).
// Positions of a sliding window are counted over `before` and `own` (whole tiles are skipped).
//
// On the CPU the bits of a row depend only on the row, the tiles and the instruction set, not on the other
// rows of the call, their number or the number of threads. bf16 has kernels from AVX2 on if D is a multiple of 16 and
// at most 512, with probabilities rounded to bf16 for the product with the values; otherwise, and in fp32,
// portable C++ in fp32. Other devices use ATen, without this guarantee.
void attend_tiles(at::Tensor out, at::Tensor lse, const at::Tensor& q, const std::vector<AttentionRows>& rows,
                  const AttentionRule& rule = {});

// [T, N] fp32, uninitialized, for a forward and its backward: strided as the device's attention reads and writes it.
at::Tensor empty_log_sums(std::int64_t tokens, std::int64_t heads, const at::TensorOptions& options);

// attend_tiles() of whole sequences: `segments` in order cover 0..T without a gap, each attends to its prefix, then to
// itself causally. k and v [T, K, D], rows may be strided. Where the backend has no form for packed rows, each segment's
// keys and values are put into tiles for the call; the bits are then those of attend_tiles() on the same tokens.
void attend_packed(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q, const at::Tensor& k,
                   const at::Tensor& v, const std::vector<AttentionSegment>& segments,
                   const AttentionRule& rule = {});

// Gradients of attention in `segments` (in order, covering 0..T without a gap; each attends to its prefix,
// then to itself causally), from the forward's out and lse. q, k, v as in packed_attention (rows may be
// strided); out, d_out [T, N * D]; dq, dk, dv like q, k, v (rows may be strided: slices of a concatenated
// buffer), overwritten, not accumulated; they may alias q, k and v. All in one dtype; sums in fp32.
//
// A window counts positions over the prefix too.
//
// A shared prompt is exact: lse and out cover both parts of the keys, so p = exp(s - lse) and delta = sum
// d_out out are those of the whole row. dq is the sum over both parts; dk and dv of the prompt are sums over
// its own tokens and all segments that follow it, in order. Neighboring segments with the same prefix are
// multiplied together. In the AVX512-BF16 form the bits of a segment, or of a prompt and all segments that
// share it, do not depend on the rest of the batch or on the number of threads: queries are split into chunks
// by the lengths only, and the chunks' contributions to dk and dv are added in order. The ATen form
// (libtorch's products in fp32) processes key-value heads one at a time, in blocks of kBackwardQueries
// queries: its memory is linear in the segment length, not quadratic.
void packed_attention_backward(at::Tensor dq, at::Tensor dk, at::Tensor dv, const at::Tensor& d_out,
                               const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& out, const at::Tensor& lse,
                               const std::vector<AttentionSegment>& segments, const AttentionRule& rule = {});

constexpr std::int64_t kBackwardQueries = 256;

// Upper bound of packed_attention_backward's temporary memory, in bytes.
struct AttentionSizes {
  std::int64_t tokens = 0, longest = 0;  // of all segments in total, and of the longest
  // Tokens of the longest prefix, and of all neighboring segments that share one, in total; 0 without
  // prefixes.
  std::int64_t prefix = 0, sharing = 0;
  std::int64_t heads = 1, kv_heads = 1, head_dim = 0;
  std::int64_t threads = 1;
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  bool soft_cap = false;
};
std::int64_t packed_attention_backward_bytes(const AttentionSizes& sizes);

}  // namespace hone::ops
