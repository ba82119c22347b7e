// packed_attention_backward: the formulas of flash attention's backward (Dao 2022, algorithm 4), in plain form.
#include <ATen/ATen.h>

#include <cmath>

#include "base/error.h"
#include "ops/attention.h"

namespace hone::ops {
namespace {

// Rows [begin, end) of x [T, K * group, D] as [K, n * group, D], in fp32 (fp64 stays).
at::Tensor by_kv_head(const at::Tensor& x, std::int64_t begin, std::int64_t end, std::int64_t kv_heads) {
  const std::int64_t n = end - begin, dim = x.size(2), group = x.size(1) / kv_heads;
  const at::Tensor rows = x.narrow(0, begin, n);
  return rows.to(at::kFloat).reshape({n, kv_heads, group * dim}).transpose(0, 1).reshape(
      {kv_heads, n * group, dim});
}

void backward_plain(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor& d_out,
                    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                    const at::Tensor& lse, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = end - begin, heads = q.size(1), kv_heads = k.size(1), group = heads / kv_heads;
  const std::int64_t dim = q.size(2);
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  const auto rows = [&](const at::Tensor& x) { return by_kv_head(x, begin, end, kv_heads); };
  const auto heads_of = [&](const at::Tensor& x) { return x.unflatten(1, {heads, dim}); };
  const at::Tensor queries = rows(q), keys = rows(k), values = rows(v);
  const at::Tensor g = rows(heads_of(d_out));
  const at::Tensor row_lse =
      lse.narrow(0, begin, n).reshape({n, kv_heads, group}).transpose(0, 1).reshape({kv_heads, n * group, 1});
  const at::Tensor delta = g.mul(rows(heads_of(out))).sum(-1, /*keepdim=*/true);
  const auto index = at::TensorOptions(at::kLong).device(q.device());
  const at::Tensor hidden =
      at::arange(n, index).unsqueeze(0) > at::arange(n, index).repeat_interleave(group).unsqueeze(1);
  const at::Tensor p = at::matmul(queries, keys.transpose(1, 2)).mul_(scale).sub_(row_lse).exp_().masked_fill_(hidden, 0);
  const at::Tensor ds = at::matmul(g, values.transpose(1, 2)).sub_(delta).mul_(p).mul_(scale);
  const auto give = [&](const at::Tensor& to, const at::Tensor& x) {  // x [K, n * heads a kv head, D]
    to.narrow(0, begin, n).copy_(x.view({kv_heads, n, -1}).transpose(0, 1).reshape({n, to.size(1), dim}));
  };
  give(dq, at::matmul(ds, keys));
  give(dk, at::matmul(ds.transpose(1, 2), queries));
  give(dv, at::matmul(p.transpose(1, 2), g));
}

void check(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor& d_out,
           const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
           const at::Tensor& lse, const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
  constexpr const char* kWhere = "ops::packed_attention_backward";
  base::require(q.dim() == 3 && k.dim() == 3 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
                    q.size(2) == k.size(2) && q.size(1) % k.size(1) == 0,
                kWhere, "q [T, N, D], k and v [T, K, D]");
  base::require(dq.sizes() == q.sizes() && dk.sizes() == k.sizes() && dv.sizes() == v.sizes(), kWhere,
                "dq, dk, dv like q, k, v");
  base::require(out.dim() == 2 && out.sizes() == d_out.sizes() && out.size(0) == q.size(0) &&
                    out.size(1) == q.size(1) * q.size(2),
                kWhere, "out and d_out [T, N * D]");
  base::require(lse.dim() == 2 && lse.size(0) == q.size(0) && lse.size(1) == q.size(1) &&
                    lse.scalar_type() == at::kFloat,
                kWhere, "lse [T, N] in fp32");
  for (const at::Tensor* x : {&dq, &dk, &dv, &d_out, &k, &v, &out}) {
    base::require(x->scalar_type() == q.scalar_type(), kWhere, "one dtype");
  }
  std::int64_t at_token = 0;
  for (const auto& [begin, end] : segments) {
    base::require(begin == at_token && end > begin, kWhere, "segments in order, without gap or overlap");
    at_token = end;
  }
  base::require(at_token == q.size(0), kWhere, "segments that cover every token");
}

}  // namespace

void packed_attention_backward(at::Tensor dq, at::Tensor dk, at::Tensor dv, const at::Tensor& d_out,
                               const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& out, const at::Tensor& lse,
                               const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
  check(dq, dk, dv, d_out, q, k, v, out, lse, segments);
  for (const auto& [begin, end] : segments) {
    backward_plain(dq, dk, dv, d_out, q, k, v, out, lse, begin, end);
  }
}

}  // namespace hone::ops
