#include "ops/attention.h"

#include <ATen/ATen.h>

#include <cmath>

#include "base/error.h"

namespace hone::ops {
namespace {

// [t, heads, D] -> [1, heads, t, D], the layout that scaled_dot_product_attention reads.
at::Tensor heads_first(const at::Tensor& x) {
  return x.transpose(0, 1).unsqueeze(0);
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const std::optional<at::Tensor>& mask, bool causal) {
  const bool grouped = q.size(1) != k.size(1);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(2)));
  const at::Tensor out =
      at::scaled_dot_product_attention(heads_first(q), heads_first(k), heads_first(v), mask,
                                       /*dropout_p=*/0.0, causal, scale, grouped);
  return out.squeeze(0).transpose(0, 1).reshape({q.size(0), q.size(1) * q.size(2)});
}

}  // namespace

at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
  std::vector<at::Tensor> outs;
  outs.reserve(segments.size());
  std::int64_t at_token = 0;
  for (const auto& [begin, end] : segments) {
    base::require(begin == at_token && end > begin, "packed_attention",
                  "segments in order, without gap or overlap");
    at_token = end;
    const std::int64_t n = end - begin;
    outs.push_back(
        attend(q.narrow(0, begin, n), k.narrow(0, begin, n), v.narrow(0, begin, n), std::nullopt, true));
  }
  base::require(at_token == q.size(0), "packed_attention", "segments that cover every token");
  return outs.size() == 1 ? outs.front() : at::cat(outs, 0);
}

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const std::int64_t n = q.size(0), length = k.size(0);
  base::require(length >= n, "cached_attention", "at least as many keys as queries");
  if (n == length) return attend(q, k, v, std::nullopt, true);
  if (n == 1) return attend(q, k, v, std::nullopt, false);
  // is_causal aligns at the top left; here the last query sees the last key.
  const at::Tensor mask = at::ones({n, length}, at::kBool).tril(length - n);
  return attend(q, k, v, mask, false);
}

}  // namespace hone::ops
