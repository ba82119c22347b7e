// attend_tiles: which keys a row sees, and the plain form with ATen on any device.
#include <ATen/ATen.h>

#include <cmath>

#include "base/error.h"
#include "ops/attention.h"

namespace hone::ops {
namespace {

// The tiles' tokens as [length, K, D], keys then values.
std::pair<at::Tensor, at::Tensor> dense(const KvTiles& tiles) {
  const at::Tensor &keys = tiles.keys(), &values = tiles.values();
  const std::int64_t heads = tiles.kv_heads(), dim = tiles.head_dim(), n = keys.size(1);
  at::Tensor k, v;
  if (keys.scalar_type() == at::kFloat) {
    k = keys.view({heads, n, dim, kKvTile}).permute({1, 3, 0, 2});
    v = values.view({heads, n, kKvTile, dim}).permute({1, 2, 0, 3});
  } else {
    k = keys.view({heads, n, dim / 2, kKvTile, 2}).permute({1, 3, 0, 2, 4});
    v = values.view({heads, n, kKvTile / 2, dim, 2}).permute({1, 2, 4, 0, 3});
  }
  const auto rows = [&](const at::Tensor& x) {
    return x.reshape({n * kKvTile, heads, dim}).narrow(0, 0, tiles.length());
  };
  return {rows(k), rows(v)};
}

void attend_plain(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q, const AttentionRows& rows,
                  std::int64_t window) {
  std::vector<at::Tensor> all_k, all_v;
  std::int64_t prefix = 0;
  for (const KvTiles* tiles : rows.before) {
    auto [k, v] = dense(*tiles);
    all_k.push_back(k);
    all_v.push_back(v);
    prefix += tiles->length();
  }
  auto [own_k, own_v] = dense(*rows.own);
  all_k.push_back(own_k);
  all_v.push_back(own_v);
  const std::int64_t heads = q.size(1), dim = q.size(2), kv_heads = rows.own->kv_heads();
  const std::int64_t n = rows.end - rows.begin, group = heads / kv_heads;
  // [K, L, D]; queries of a kv head as [K, n * group, D].
  const at::Tensor k = at::cat(all_k, 0).transpose(0, 1).to(at::kFloat);
  const at::Tensor v = at::cat(all_v, 0).transpose(0, 1).to(at::kFloat);
  const at::Tensor queries = q.narrow(0, rows.begin, n)
                                 .to(at::kFloat)
                                 .reshape({n, kv_heads, group, dim})
                                 .transpose(0, 1)
                                 .reshape({kv_heads, n * group, dim});
  at::Tensor scores = at::matmul(queries, k.transpose(1, 2));
  scores.mul_(1.0 / std::sqrt(static_cast<double>(dim)));
  const auto index = at::TensorOptions(at::kLong).device(q.device());
  const at::Tensor place = at::arange(n, index).add_(prefix + rows.own_offset).repeat_interleave(group).unsqueeze(1);
  const at::Tensor key = at::arange(k.size(1), index).unsqueeze(0);
  at::Tensor hidden = key > place;
  if (window > 0) hidden = hidden.logical_or(key <= place - window);
  scores.masked_fill_(hidden, -INFINITY);
  const at::Tensor row_lse = at::logsumexp(scores, -1);  // [K, n * group]
  const at::Tensor p = scores.sub_(row_lse.unsqueeze(-1)).exp_();
  const at::Tensor result = at::matmul(p, v).view({kv_heads, n, group * dim}).transpose(0, 1);
  out.narrow(0, rows.begin, n).copy_(result.reshape({n, heads * dim}));
  if (lse.defined()) {
    lse.narrow(0, rows.begin, n)
        .copy_(row_lse.view({kv_heads, n, group}).transpose(0, 1).reshape({n, heads}));
  }
}

void check(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q,
           const std::vector<AttentionRows>& rows) {
  constexpr const char* kWhere = "ops::attend_tiles";
  base::require(q.dim() == 3 && out.dim() == 2 && out.size(0) == q.size(0) &&
                    out.size(1) == q.size(1) * q.size(2) && out.scalar_type() == q.scalar_type(),
                kWhere, "q [T, N, D] and out [T, N * D] of one dtype");
  base::require(q.stride(2) == 1 && q.stride(1) == q.size(2) && out.stride(1) == 1, kWhere,
                "a row's heads side by side");
  base::require(!lse.defined() || (lse.scalar_type() == at::kFloat && lse.dim() == 2 &&
                                   lse.size(0) == q.size(0) && lse.size(1) == q.size(1)),
                kWhere, "lse [T, N] in fp32");
  const auto fits = [&](const KvTiles* tiles) {
    return tiles != nullptr && tiles->kv_heads() > 0 && q.size(1) % tiles->kv_heads() == 0 &&
           tiles->head_dim() == q.size(2) && tiles->keys().scalar_type() == q.scalar_type();
  };
  for (const AttentionRows& r : rows) {
    base::require(r.begin >= 0 && r.begin <= r.end && r.end <= q.size(0), kWhere, "rows inside q");
    base::require(fits(r.own) && r.own_offset >= 0 && r.own_offset + r.end - r.begin <= r.own->length(), kWhere,
                  "own tiles that hold the rows' tokens");
    for (const KvTiles* tiles : r.before) {
      base::require(fits(tiles) && tiles->kv_heads() == r.own->kv_heads(), kWhere, "tiles of the same shape");
    }
  }
}

}  // namespace

void attend_tiles(at::Tensor out, at::Tensor lse, const at::Tensor& q, const std::vector<AttentionRows>& rows,
                  std::int64_t window) {
  check(out, lse, q, rows);
  for (const AttentionRows& r : rows) {
    if (r.end > r.begin) attend_plain(out, lse, q, r, window);
  }
}

}  // namespace hone::ops
