#include "ops/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace hone::ops {
namespace attention_test {

// Softmax attention written out, kv heads repeated; token i sees keys up to its own place.
at::Tensor by_hand(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const std::int64_t n = q.size(0), group = q.size(1) / k.size(1);
  const at::Tensor keys = k.repeat_interleave(group, 1).transpose(0, 1);    // [N, n, D]
  const at::Tensor values = v.repeat_interleave(group, 1).transpose(0, 1);  // [N, n, D]
  const at::Tensor seen = at::ones({n, n}, at::kBool).tril();
  const at::Tensor scores =
      q.transpose(0, 1).matmul(keys.transpose(1, 2)) / std::sqrt(static_cast<double>(q.size(2)));
  const at::Tensor p = at::softmax(scores.masked_fill(seen.logical_not(), -INFINITY), -1);
  return p.matmul(values).transpose(0, 1).reshape({n, -1});
}

struct Qkv {
  at::Tensor q, k, v;
};

Qkv make(std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads) {
  at::manual_seed(5);
  return {at::randn({tokens, heads, 16}), at::randn({tokens, kv_heads, 16}),
          at::randn({tokens, kv_heads, 16})};
}

TEST(PackedAttention, IsCausalSoftmaxForGroupedHeads) {
  for (const std::int64_t kv_heads : {4, 2, 1}) {
    const Qkv t = make(9, 4, kv_heads);
    EXPECT_TRUE(at::allclose(packed_attention(t.q, t.k, t.v, {{0, 9}}), by_hand(t.q, t.k, t.v), 1e-4, 1e-5))
        << kv_heads;
  }
}

TEST(PackedAttention, NeverLeavesASegment) {
  const Qkv t = make(9, 4, 2);
  const at::Tensor out = packed_attention(t.q, t.k, t.v, {{0, 4}, {4, 5}, {5, 9}});
  for (const auto& [begin, end] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 4}, {4, 5}, {5, 9}}) {
    const at::Tensor alone =
        by_hand(t.q.slice(0, begin, end), t.k.slice(0, begin, end), t.v.slice(0, begin, end));
    EXPECT_TRUE(at::allclose(out.slice(0, begin, end), alone, 1e-4, 1e-5));
  }
}

TEST(PackedAttention, HasTheGradientOfTheWrittenOutForm) {
  Qkv t = make(6, 4, 2);
  Qkv u{t.q.clone(), t.k.clone(), t.v.clone()};
  for (at::Tensor* x : {&t.q, &t.k, &t.v, &u.q, &u.k, &u.v}) x->set_requires_grad(true);
  const at::Tensor g = at::randn({6, 64});
  packed_attention(t.q, t.k, t.v, {{0, 6}}).backward(g);
  by_hand(u.q, u.k, u.v).backward(g);
  EXPECT_TRUE(at::allclose(t.q.grad(), u.q.grad(), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(t.k.grad(), u.k.grad(), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(t.v.grad(), u.v.grad(), 1e-4, 1e-5));
}

TEST(PackedAttention, RefusesSegmentsWithAGap) {
  const Qkv t = make(6, 2, 2);
  EXPECT_THROW(packed_attention(t.q, t.k, t.v, {{0, 2}, {3, 6}}), base::InternalError);
  EXPECT_THROW(packed_attention(t.q, t.k, t.v, {{0, 5}}), base::InternalError);
}

}  // namespace attention_test
}  // namespace hone::ops
