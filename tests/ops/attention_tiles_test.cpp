// attend_tiles: its values against fp64, and that a row's bits depend on nothing but the row.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "ops/attention.h"

namespace hone::ops {
namespace {

struct Shape {
  std::int64_t heads, kv_heads, dim;
};

struct Sequence {
  at::Tensor q, k, v;  // [L, heads, D], as slices of a joined buffer
};

Sequence make(std::int64_t length, Shape s, at::ScalarType dtype) {
  const at::Tensor joined = at::randn({length, (s.heads + 2 * s.kv_heads) * s.dim}).to(dtype);
  const auto part = [&](std::int64_t from, std::int64_t heads) {
    return joined.narrow(1, from * s.dim, heads * s.dim).unflatten(1, {heads, s.dim});
  };
  return {part(0, s.heads), part(s.heads, s.kv_heads), part(s.heads + s.kv_heads, s.kv_heads)};
}

struct Result {
  at::Tensor out, lse;
};

// In fp64; query i of the last n sees the keys up to its own place, at most `window` of them.
Result by_hand(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t window) {
  const std::int64_t n = q.size(0), length = k.size(0), group = q.size(1) / k.size(1);
  const at::Tensor keys = k.to(at::kDouble).repeat_interleave(group, 1).transpose(0, 1);
  const at::Tensor values = v.to(at::kDouble).repeat_interleave(group, 1).transpose(0, 1);
  at::Tensor seen = at::ones({n, length}, at::kBool).tril(length - n);
  if (window > 0) seen = seen.logical_and(at::ones({n, length}, at::kBool).triu(length - n - window + 1));
  const at::Tensor scores =
      (q.to(at::kDouble).transpose(0, 1).matmul(keys.transpose(1, 2)) / std::sqrt(static_cast<double>(q.size(2))))
          .masked_fill(seen.logical_not(), -INFINITY);
  return {at::softmax(scores, -1).matmul(values).transpose(0, 1).reshape({n, -1}),
          at::logsumexp(scores, -1).transpose(0, 1)};
}

Result empty_for(std::int64_t n, Shape s, at::ScalarType dtype) {
  // A slice of a wider buffer, full of what must not be read.
  return {at::full({n, s.heads * s.dim + 8}, NAN, dtype).narrow(1, 8, s.heads * s.dim),
          at::full({n, s.heads}, NAN)};
}

void expect_close(const at::Tensor& mine, const at::Tensor& right, double bound, const std::string& what) {
  const at::Tensor difference = mine.to(at::kDouble).sub(right).abs();
  const double most = difference.div(right.abs().add(1)).max().item<double>();
  EXPECT_LT(most, bound) << what;  // false for NaN too
}

double bound_of(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-5 : 8e-3;  // one bf16 rounding of out is 4e-3, those of p average out
}

constexpr Shape kShapes[] = {{4, 4, 16}, {6, 2, 32}, {14, 2, 64}, {9, 3, 64}, {4, 1, 128}, {4, 2, 80}, {2, 1, 20}};

TEST(AttendTiles, IsCausalSoftmaxAttention) {
  at::manual_seed(7);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const Shape s : kShapes) {
      for (const std::int64_t length : {1, 63, 64, 65, 200}) {
        const Sequence x = make(length, s, dtype);
        KvTiles tiles(s.kv_heads, s.dim, dtype, 1);
        tiles.append(x.k, x.v);
        const Result mine = empty_for(length, s, dtype), right = by_hand(x.q, x.k, x.v, 0);
        attend_tiles(mine.out, mine.lse, x.q, {{0, length, {}, &tiles, 0}});
        const std::string what = c10::toString(dtype) + std::string(" D ") + std::to_string(s.dim) + " L " +
                                 std::to_string(length);
        expect_close(mine.out, right.out, bound_of(dtype), what);
        expect_close(mine.lse, right.lse, 1e-5, what + " lse");
      }
    }
  }
}

TEST(AttendTiles, LooksBackOnlyAsFarAsTheWindow) {
  at::manual_seed(8);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t window : {1, 7, 64, 100, 128, 500}) {
      const Shape s{6, 2, 32};
      const Sequence x = make(300, s, dtype);
      KvTiles tiles(s.kv_heads, s.dim, dtype, 300);
      tiles.append(x.k, x.v);
      const Result mine = empty_for(300, s, dtype), right = by_hand(x.q, x.k, x.v, window);
      attend_tiles(mine.out, mine.lse, x.q, {{0, 300, {}, &tiles, 0}}, window);
      expect_close(mine.out, right.out, bound_of(dtype), std::to_string(window));
      expect_close(mine.lse, right.lse, 1e-5, std::to_string(window));
    }
  }
}

TEST(AttendTiles, SeesTheSegmentsBeforeItsOwn) {
  at::manual_seed(9);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t window : {0, 50}) {
      const Shape s{6, 2, 32};
      const Sequence x = make(70 + 5 + 90, s, dtype);
      KvTiles first(s.kv_heads, s.dim, dtype, 70), second(s.kv_heads, s.dim, dtype, 5),
          own(s.kv_heads, s.dim, dtype, 90);
      first.append(x.k.narrow(0, 0, 70), x.v.narrow(0, 0, 70));
      second.append(x.k.narrow(0, 70, 5), x.v.narrow(0, 70, 5));
      own.append(x.k.narrow(0, 75, 90), x.v.narrow(0, 75, 90));
      const at::Tensor q = x.q.narrow(0, 85, 80);  // the last 80: own_offset 10
      const Result mine = empty_for(80, s, dtype), right = by_hand(q, x.k, x.v, window);
      attend_tiles(mine.out, mine.lse, q, {{0, 80, {&first, &second}, &own, 10}}, window);
      expect_close(mine.out, right.out, bound_of(dtype), std::to_string(window));
      expect_close(mine.lse, right.lse, 1e-5, std::to_string(window));
    }
  }
}

TEST(AttendTiles, LseIsOnlyWrittenWhereWanted) {
  const Shape s{4, 2, 16};
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Sequence x = make(65, s, dtype);
    KvTiles tiles(s.kv_heads, s.dim, dtype, 65);
    tiles.append(x.k, x.v);
    const Result with = empty_for(65, s, dtype), without = empty_for(65, s, dtype);
    attend_tiles(with.out, with.lse, x.q, {{0, 65, {}, &tiles, 0}});
    attend_tiles(without.out, {}, x.q, {{0, 65, {}, &tiles, 0}});
    EXPECT_TRUE(with.out.equal(without.out));
  }
}

TEST(AttendTiles, RefusesWhatDoesNotFit) {
  const Shape s{4, 2, 16};
  const Sequence x = make(8, s, at::kFloat);
  KvTiles tiles(s.kv_heads, s.dim, at::kFloat, 8);
  tiles.append(x.k.narrow(0, 0, 7), x.v.narrow(0, 0, 7));
  const Result r = empty_for(8, s, at::kFloat);
  EXPECT_THROW(attend_tiles(r.out, r.lse, x.q, {{0, 8, {}, &tiles, 0}}), base::InternalError);
  EXPECT_THROW(attend_tiles(r.out, r.lse, x.q, {{0, 4, {}, nullptr, 0}}), base::InternalError);
  EXPECT_THROW(attend_tiles(r.out, r.lse, x.q, {{4, 9, {}, &tiles, 0}}), base::InternalError);
}

}  // namespace
}  // namespace hone::ops
