#include "ops/attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "base/error.h"
#include "ops/backend/announce.h"

namespace hone::ops {
namespace {

// [t, heads, D] -> [1, heads, t, D], the layout that scaled_dot_product_attention reads.
at::Tensor heads_first(const at::Tensor& x) {
  return x.transpose(0, 1).unsqueeze(0);
}

// [t, t] bool: which keys the query of a row sees; nothing where that is every earlier key.
std::optional<at::Tensor> band(const at::Tensor& q, std::int64_t window) {
  const std::int64_t n = q.size(0);
  if (window <= 0 || window >= n) return std::nullopt;
  return at::ones({n, n}, q.options().dtype(at::kBool)).tril_().triu_(1 - window);
}

// libtorch's attention has no soft cap: transformers' eager_attention_forward of Gemma 2.
at::Tensor attend_capped(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                         const AttentionRule& rule) {
  const std::int64_t group = q.size(1) / k.size(1), n = q.size(0);
  const auto every = [&](const at::Tensor& x) { return x.repeat_interleave(group, 1).transpose(0, 1); };
  const at::Tensor scores = at::matmul(q.transpose(0, 1), every(k).transpose(1, 2)) * scale;
  const at::Tensor capped = (scores / rule.soft_cap).tanh() * rule.soft_cap;
  at::Tensor seen = at::ones({n, n}, q.options().dtype(at::kBool)).tril_();
  if (rule.window > 0 && rule.window < n) seen.triu_(1 - rule.window);
  const at::Tensor p = at::softmax(capped.masked_fill(seen.logical_not(), -INFINITY), -1, at::kFloat);
  return at::matmul(p.to(q.scalar_type()), every(v)).transpose(0, 1).reshape({n, q.size(1) * q.size(2)});
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionRule& rule) {
  const bool grouped = q.size(1) != k.size(1);
  const double scale = rule.scale > 0 ? rule.scale : 1.0 / std::sqrt(static_cast<double>(q.size(2)));
  if (rule.soft_cap > 0) return attend_capped(q, k, v, scale, rule);
  const std::optional<at::Tensor> mask = band(q, rule.window);
  const at::Tensor out =
      at::scaled_dot_product_attention(heads_first(q), heads_first(k), heads_first(v), mask,
                                       /*dropout_p=*/0.0, /*is_causal=*/!mask, scale, grouped);
  return out.squeeze(0).transpose(0, 1).reshape({q.size(0), q.size(1) * q.size(2)});
}

}  // namespace

at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<std::pair<std::int64_t, std::int64_t>>& segments,
                            const AttentionRule& rule) {
  announce("attention", q.size(0), q.size(1), q.size(2), q.scalar_type());
  std::vector<at::Tensor> outs;
  outs.reserve(segments.size());
  std::int64_t at_token = 0;
  for (const auto& [begin, end] : segments) {
    base::require(begin == at_token && end > begin, "packed_attention",
                  "segments in order, without gap or overlap");
    at_token = end;
    const std::int64_t n = end - begin;
    outs.push_back(attend(q.narrow(0, begin, n), k.narrow(0, begin, n), v.narrow(0, begin, n), rule));
  }
  base::require(at_token == q.size(0), "packed_attention", "segments that cover every token");
  return outs.size() == 1 ? outs.front() : at::cat(outs, 0);
}

}  // namespace hone::ops
