#include <ATen/ATen.h>

#include <cmath>

#include "ops/backend/reference/reference.h"

namespace hone::ops::reference {
namespace {

void attend_rows(const Tensor& out, const Tensor& lse, const Tensor& q, const AttentionRows& rows,
                 const AttentionRule& rule) {
  std::vector<Tensor> all_k, all_v;
  std::int64_t prefix = 0;
  for (const KvTiles* tiles : rows.before) {
    auto [k, v] = keys_and_values(*tiles);
    all_k.push_back(k);
    all_v.push_back(v);
    prefix += tiles->length();
  }
  auto [own_k, own_v] = keys_and_values(*rows.own);
  all_k.push_back(own_k);
  all_v.push_back(own_v);
  const std::int64_t heads = q.size(1), dim = q.size(2), kv_heads = rows.own->kv_heads();
  const std::int64_t n = rows.end - rows.begin, group = heads / kv_heads;
  // [K, L, D]; queries of a kv head as [K, n * group, D].
  const Tensor k = at::cat(all_k, 1).to(at::kFloat);
  const Tensor v = at::cat(all_v, 1).to(at::kFloat);
  const Tensor queries = q.narrow(0, rows.begin, n)
                             .to(at::kFloat)
                             .reshape({n, kv_heads, group, dim})
                             .transpose(0, 1)
                             .reshape({kv_heads, n * group, dim});
  Tensor scores = at::matmul(queries, k.transpose(1, 2));
  scores.mul_(rule.scale > 0 ? rule.scale : 1.0 / std::sqrt(static_cast<double>(dim)));
  if (rule.soft_cap > 0) scores.div_(rule.soft_cap).tanh_().mul_(rule.soft_cap);
  const auto index = at::TensorOptions(at::kLong).device(q.device());
  const Tensor place =
      at::arange(n, index).add_(prefix + rows.own_offset).repeat_interleave(group).unsqueeze(1);
  const Tensor key = at::arange(k.size(1), index).unsqueeze(0);
  Tensor hidden = key > place;
  if (rule.window > 0) hidden = hidden.logical_or(key <= place - rule.window);
  scores.masked_fill_(hidden, -INFINITY);
  const Tensor row_lse = at::logsumexp(scores, -1);  // [K, n * group]
  const Tensor p = scores.sub_(row_lse.unsqueeze(-1)).exp_();
  const Tensor result = at::matmul(p, v).view({kv_heads, n, group * dim}).transpose(0, 1);
  out.narrow(0, rows.begin, n).copy_(result.reshape({n, heads * dim}));
  if (lse.defined()) {
    lse.narrow(0, rows.begin, n)
        .copy_(row_lse.view({kv_heads, n, group}).transpose(0, 1).reshape({n, heads}));
  }
}

}  // namespace

void attend_tiles(const Tensor& out, const Tensor& lse, const Tensor& q,
                  const std::vector<AttentionRows>& rows, const AttentionRule& rule) {
  for (const AttentionRows& r : rows) {
    if (r.end > r.begin) attend_rows(out, lse, q, r, rule);
  }
}

}  // namespace hone::ops::reference
