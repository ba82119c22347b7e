// packed_attention_backward: its checks.
#include "base/error.h"
#include "ops/attention.h"
#include "ops/backend/announce.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

constexpr const char* kBackwardName = "ops::packed_attention_backward";

void check_backward(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor& d_out,
                    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                    const at::Tensor& lse) {
  base::require(q.dim() == 3 && k.dim() == 3 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
                    q.size(2) == k.size(2) && q.size(1) % k.size(1) == 0,
                kBackwardName, "q [T, N, D], k and v [T, K, D]");
  base::require(dq.sizes() == q.sizes() && dk.sizes() == k.sizes() && dv.sizes() == v.sizes(), kBackwardName,
                "dq, dk, dv like q, k, v");
  base::require(out.dim() == 2 && out.sizes() == d_out.sizes() && out.size(0) == q.size(0) &&
                    out.size(1) == q.size(1) * q.size(2),
                kBackwardName, "out and d_out [T, N * D]");
  base::require(lse.dim() == 2 && lse.size(0) == q.size(0) && lse.size(1) == q.size(1) &&
                    lse.scalar_type() == at::kFloat,
                kBackwardName, "lse [T, N] in fp32");
  for (const at::Tensor* x : {&dq, &dk, &dv, &d_out, &k, &v, &out}) {
    base::require(x->scalar_type() == q.scalar_type(), kBackwardName, "one dtype");
  }
}

}  // namespace

void packed_attention_backward(at::Tensor dq, at::Tensor dk, at::Tensor dv, const at::Tensor& d_out,
                               const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& out, const at::Tensor& lse,
                               const std::vector<AttentionSegment>& segments, const AttentionRule& rule) {
  check_backward(dq, dk, dv, d_out, q, k, v, out, lse);
  announce("attention backward", q.size(0), q.size(1), q.size(2), q.scalar_type());
  const std::vector<Family> families = families_of(segments, q.size(0), kBackwardName);
  const AttentionBackward x{dq, dk, dv, d_out, q, k, v, out, lse, segments, rule};
  backend::run(q.device(), &backend::Operators::attention_backward, reference::attention_backward, x,
               families);
}

std::int64_t packed_attention_backward_bytes(const AttentionSizes& s) {
  if (s.longest == 0) return 0;
  std::int64_t bytes = 0;
  backend::run(s.device, &backend::Operators::attention_backward_bytes, reference::attention_backward_bytes,
               bytes, s);
  return bytes;
}

}  // namespace hone::ops
