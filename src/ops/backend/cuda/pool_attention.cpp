// Attention of a sampler's step over a pool of keys and values, by FlashAttention-2: one call for the rows that are alone
// (the kernel that splits keys among the processors), one for pieces of prompts, one for shared prompts, whatever the
// number of sequences. Rows that share a prompt are one sequence of queries there: it is read once for all of them. The
// two parts of such a row are joined by their log-sum-exp.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/pool_index.h"
#include "ops/backend/kv_row_pool.h"

namespace hone::ops::cuda {
namespace {

struct Part {
  Tensor out;  // [n, N, D]
  Tensor lse;  // [N, n] fp32
};

class PoolAttention {
 public:
  PoolAttention(backend::KvRowPool& pool, const Tensor& q, const AttentionRule& rule)
      : keys_(pool.keys()),
        values_(pool.values()),
        q_(q),
        scale_(rule.scale > 0 ? rule.scale : 1 / std::sqrt(static_cast<double>(q.size(2)))),
        window_(rule.window) {}

  Part alone(const PoolReads& reads) const { return call(reads, /*causal=*/false, /*window=*/0); }
  Part causal(const PoolReads& reads) const { return call(reads, /*causal=*/true, window_); }

 private:
  // A window of w keys is the row's own and w - 1 to its left.
  Part call(const PoolReads& reads, bool causal, std::int64_t window) const {
    const Tensor q = reads.queries.defined() ? q_.index_select(0, reads.queries) : q_;
    using Side = std::optional<std::int64_t>;
    const auto found = at::_flash_attention_forward(
        q, keys_, values_, reads.query_begins, reads.key_begins, reads.longest_query, reads.longest_keys,
        /*dropout_p=*/0, causal, /*return_debug_mask=*/false, scale_, window > 0 ? Side(window - 1) : Side(),
        window > 0 ? Side(0) : Side(), reads.key_lengths);
    return {std::get<0>(found), std::get<1>(found)};
  }

  Tensor keys_, values_;
  const Tensor& q_;
  double scale_;
  std::int64_t window_;
};

// Of all rows, each over its own keys.
Part over_own(const PoolAttention& attention, const PoolIndex& index, const Tensor& q) {
  if (index.several.sequences == 0) return attention.alone(index.single);
  if (index.single.sequences == 0) return attention.causal(index.several);
  Part out{.out = at::empty(q.sizes(), q.options()),
           .lse = at::empty({q.size(1), q.size(0)}, q.options().dtype(at::kFloat))};
  const auto put = [&out](const Part& part, const Tensor& rows) {
    out.out.index_copy_(0, rows, part.out);
    out.lse.index_copy_(1, rows, part.lse);
  };
  put(attention.alone(index.single), index.single.queries);
  put(attention.causal(index.several), index.several.queries);
  return out;
}

}  // namespace

bool attend_tiles(const Tensor& out, const Tensor& lse, const Tensor& q,
                  const std::vector<AttentionRows>& rows, const AttentionRule& rule) {
  if (q.size(0) == 0) return false;
  auto* const pool = dynamic_cast<backend::KvRowPool*>(pool_of(rows, q.size(0)));
  const bool two_parts =
      std::all_of(rows.begin(), rows.end(), [](const AttentionRows& one) { return one.before.size() <= 1; });
  const bool narrow = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  if (pool == nullptr || !two_parts || !narrow || rule.soft_cap > 0 || q.size(2) % 8 != 0 || q.size(2) > 256)
    return false;
  const PoolIndex& index = pool_index(rows, rule.window, q.device());
  const PoolAttention attention(*pool, q, rule);
  const Part own = over_own(attention, index, q);
  if (index.prefixes.sequences == 0) {
    out.copy_(own.out.flatten(1));
    if (lse.defined()) lse.copy_(own.lse.t());
    return true;
  }
  const Part prefix = attention.alone(index.prefixes);
  backend::join_attention({.out = out.unflatten(1, {q.size(1), q.size(2)}),
                           .lse = lse,
                           .own = own.out,
                           .own_lse = own.lse,
                           .part = prefix.out,
                           .part_lse = prefix.lse,
                           .may_be_empty = index.some_without_prefix});
  return true;
}

}  // namespace hone::ops::cuda
