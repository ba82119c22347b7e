// Attention of packed rows by FlashAttention-2 (Dao 2023), libtorch's kernel for bf16 and fp16. Rows that share a prompt
// are two calls: one over their own keys, one over the prompt's, joined by their log-sum-exp; the backward of both parts
// reads the log-sum-exp of the whole, so its sums are those of the whole row.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/packed_index.h"
#include "ops/routed_rows.h"

namespace hone::ops::cuda {
namespace {

// What the kernel has forms for. With a window the positions of a row behind a prompt would be counted from the
// prompt's end, which the kernel's window cannot say.
bool takes(const Tensor& q, const Segments& segments, const AttentionRule& rule) {
  const bool narrow = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  if (!narrow || rule.soft_cap > 0 || q.size(2) % 8 != 0 || q.size(2) > 256 || q.size(0) == 0) return false;
  return rule.window == 0 || std::all_of(segments.begin(), segments.end(), [](const AttentionSegment& one) {
           return one.prefix == kNoSegment;
         });
}

double scale_of(const Tensor& q, const AttentionRule& rule) {
  return rule.scale > 0 ? rule.scale : 1 / std::sqrt(static_cast<double>(q.size(2)));
}

// A window of w keys is the row's own and w - 1 to its left.
std::optional<std::int64_t> left_of(const AttentionRule& rule) {
  return rule.window > 0 ? std::optional<std::int64_t>(rule.window - 1) : std::nullopt;
}

std::optional<std::int64_t> right_of_row(const AttentionRule& rule) {
  return rule.window > 0 ? std::optional<std::int64_t>(0) : std::nullopt;
}

// Several sequences side by side: q [Tq, N, D] of `queries`, k and v [Tk, K, D] of `keys`.
struct Sequences {
  Tensor query_begins, key_begins;
  std::int64_t longest_query = 0, longest_key = 0;
  bool causal = false;
};

Sequences own_rows(const PackedIndex& index) {
  return {index.begins, index.begins, index.longest, index.longest, true};
}

Sequences of_prefixes(const PrefixIndex& index) {
  return {index.query_begins, index.key_begins, index.longest_queries, index.longest_keys, false};
}

struct Attended {
  Tensor out;  // [Tq, N, D]
  Tensor lse;  // [N, Tq] fp32
};

Attended attend(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& s,
                const AttentionRule& rule) {
  const auto found =
      at::_flash_attention_forward(q, k, v, s.query_begins, s.key_begins, s.longest_query, s.longest_key,
                                   /*dropout_p=*/0, s.causal, /*return_debug_mask=*/false, scale_of(q, rule),
                                   left_of(rule), right_of_row(rule));
  return {std::get<0>(found), std::get<1>(found)};
}

struct Gradients {
  Tensor q, k, v;
};

Gradients back(const Tensor& d_out, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
               const Tensor& lse, const Sequences& s, const AttentionRule& rule) {
  const Tensor no_random = at::empty({2}, q.options().dtype(at::kLong));
  auto [dq, dk, dv] = at::_flash_attention_backward(
      d_out, q, k, v, out, lse, s.query_begins, s.key_begins, s.longest_query, s.longest_key,
      /*dropout_p=*/0, s.causal, no_random, no_random, scale_of(q, rule), left_of(rule), right_of_row(rule));
  return {dq, dk, dv};
}

Tensor by_heads(const Tensor& x, std::int64_t head_dim) {
  return x.unflatten(1, {x.size(1) / head_dim, head_dim});
}

// [T, N, D] as [T, N D]: heads lie side by side.
Tensor rows_of(const Tensor& x) {
  return x.as_strided({x.size(0), x.size(1) * x.size(2)}, {x.stride(0), 1});
}

}  // namespace

bool attend_packed(const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Segments& segments, const AttentionRule& rule) {
  if (!takes(q, segments, rule)) return false;
  const PackedIndex& index = packed_index(segments, q.device());
  const PrefixIndex& prefixes = index.prefixes;
  const Attended found = attend(q, k, v, own_rows(index), rule);
  Attended part;
  if (prefixes.queries.defined())
    part = attend(q.index_select(0, prefixes.queries), k.index_select(0, prefixes.keys),
                  v.index_select(0, prefixes.keys), of_prefixes(prefixes), rule);
  std::vector<BlockCopy> copies = {{out, found.out.flatten(1)}};
  if (lse.defined()) copies.push_back({lse.t(), found.lse});
  ops::copy_blocks(copies);
  if (prefixes.queries.defined())
    backend::join_attention({.out = by_heads(out, q.size(2)),
                             .lse = lse,
                             .own = found.out,
                             .own_lse = found.lse,
                             .part = part.out,
                             .part_lse = part.lse,
                             .rows = prefixes.queries});
  return true;
}

bool attention_backward(const AttentionBackward& x, const std::vector<Family>& /*families*/) {
  if (!takes(x.q, x.segments, x.rule)) return false;
  const std::int64_t head_dim = x.q.size(2);
  const PackedIndex& index = packed_index(x.segments, x.q.device());
  const Tensor lse = x.lse.t().contiguous(), out = by_heads(x.out, head_dim),
               d_out = by_heads(x.d_out, head_dim);
  const Gradients own = back(d_out, x.q, x.k, x.v, out, lse, own_rows(index), x.rule);
  if (const PrefixIndex& prefixes = index.prefixes; prefixes.queries.defined()) {
    const auto of_queries = [&](const Tensor& all) { return all.index_select(0, prefixes.queries); };
    const Gradients part = back(of_queries(d_out), of_queries(x.q), x.k.index_select(0, prefixes.keys),
                                x.v.index_select(0, prefixes.keys), of_queries(out),
                                lse.index_select(1, prefixes.queries), of_prefixes(prefixes), x.rule);
    own.q.index_add_(0, prefixes.queries, part.q);
    own.k.index_add_(0, prefixes.keys, part.k);
    own.v.index_add_(0, prefixes.keys, part.v);
  }
  const std::vector<BlockCopy> copies = {
      {rows_of(x.dq), rows_of(own.q)}, {rows_of(x.dk), rows_of(own.k)}, {rows_of(x.dv), rows_of(own.v)}};
  ops::copy_blocks(copies);
  return true;
}

// The kernel's sums of dq in fp32 and of each row; dk and dv of every query head, before heads that share a key are
// added up; and the three results.
bool attention_backward_bytes(std::int64_t& bytes, const AttentionSizes& s) {
  const bool narrow = s.dtype == at::kBFloat16 || s.dtype == at::kHalf;
  if (!narrow || s.soft_cap || s.head_dim % 8 != 0 || s.head_dim > 256) return false;
  const std::int64_t of_queries = s.tokens * s.heads * s.head_dim,
                     of_keys = s.tokens * s.kv_heads * s.head_dim;
  const bool grouped = s.heads != s.kv_heads;
  bytes =
      4 * of_queries + 4 * s.tokens * s.heads + (grouped ? 4 * of_queries : 0) + 2 * of_queries + 4 * of_keys;
  return true;
}

}  // namespace hone::ops::cuda
