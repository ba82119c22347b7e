// attend_tiles: its values against fp64, and that a row's bits depend on nothing but the row.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/process/instruction_level.h"
#include "ops/attention.h"

namespace hone::ops {
namespace attention_tiles_test {

struct Shape {
  std::int64_t heads, kv_heads, dim;
};

struct Sequence {
  at::Tensor q, k, v;  // [L, heads, D], as slices of a concatenated buffer
};

Sequence make(std::int64_t length, Shape s, at::ScalarType dtype) {
  const at::Tensor concat = at::randn({length, (s.heads + 2 * s.kv_heads) * s.dim}).to(dtype);
  const auto part = [&](std::int64_t from, std::int64_t heads) {
    return concat.narrow(1, from * s.dim, heads * s.dim).unflatten(1, {heads, s.dim});
  };
  return {part(0, s.heads), part(s.heads, s.kv_heads), part(s.heads + s.kv_heads, s.kv_heads)};
}

struct Result {
  at::Tensor out, lse;
};

// In fp64; query i of the last n sees the keys up to its own place, at most `window` of them.
Result by_hand(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t window,
               double cap = 0) {
  const std::int64_t n = q.size(0), length = k.size(0), group = q.size(1) / k.size(1);
  const at::Tensor keys = k.to(at::kDouble).repeat_interleave(group, 1).transpose(0, 1);
  const at::Tensor values = v.to(at::kDouble).repeat_interleave(group, 1).transpose(0, 1);
  at::Tensor seen = at::ones({n, length}, at::kBool).tril(length - n);
  if (window > 0) seen = seen.logical_and(at::ones({n, length}, at::kBool).triu(length - n - window + 1));
  at::Tensor scores = q.to(at::kDouble).transpose(0, 1).matmul(keys.transpose(1, 2)) /
                      std::sqrt(static_cast<double>(q.size(2)));
  if (cap > 0) scores = (scores / cap).tanh() * cap;
  scores = scores.masked_fill(seen.logical_not(), -INFINITY);
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

// Every test of this suite with every set of instructions that this machine has.
class AttendTilesAt : public testing::TestWithParam<base::InstructionLevel> {
 protected:
  void SetUp() override {
    if (!base::machine_has(GetParam())) GTEST_SKIP() << "this machine has no " << name_of(GetParam());
    force_.emplace(GetParam());
  }

 private:
  std::optional<base::ForceInstructionLevel> force_;
};

INSTANTIATE_TEST_SUITE_P(Levels, AttendTilesAt, testing::ValuesIn(base::kInstructionLevels),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(AttendTilesAt, LooksBackOnlyAsFarAsTheWindow) {
  at::manual_seed(8);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t window : {1, 7, 64, 100, 128, 500}) {
      const Shape s{6, 2, 32};
      const Sequence x = make(300, s, dtype);
      KvTiles tiles(s.kv_heads, s.dim, dtype, 300);
      tiles.append(x.k, x.v);
      for (const double cap : {0.0, 1.5, 50.0}) {
        const Result mine = empty_for(300, s, dtype), right = by_hand(x.q, x.k, x.v, window, cap);
        attend_tiles(mine.out, mine.lse, x.q, {{0, 300, {}, &tiles, 0}}, {.window = window, .soft_cap = cap});
        const std::string what = std::to_string(window) + " cap " + std::to_string(cap);
        expect_close(mine.out, right.out, bound_of(dtype), what);
        expect_close(mine.lse, right.lse, 1e-5, what);
      }
    }
  }
}

TEST_P(AttendTilesAt, SeesTheSegmentsBeforeItsOwn) {
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
      attend_tiles(mine.out, mine.lse, q, {{0, 80, {&first, &second}, &own, 10}}, {.window = window});
      expect_close(mine.out, right.out, bound_of(dtype), std::to_string(window));
      expect_close(mine.lse, right.lse, 1e-5, std::to_string(window));
    }
  }
}

// Sets the number of threads while it lives.
class Threads {
 public:
  explicit Threads(int n) : before_(at::get_num_threads()) { at::set_num_threads(n); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

void expect_same(const Result& a, const Result& b, const std::string& what) {
  EXPECT_TRUE(a.out.equal(b.out)) << what;
  EXPECT_TRUE(a.lse.equal(b.lse)) << what;
}

// The sampler is the trainer: a prompt in one call and then a token at a time, next to other sequences of
// other lengths, gives the bits of the whole sequence in one call.
TEST_P(AttendTilesAt, ARowsBitsDependOnNothingButTheRow) {
  at::manual_seed(10);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const Shape s : {Shape{14, 2, 64}, Shape{4, 4, 16}, Shape{3, 1, 80}, Shape{2, 1, 20}}) {
      for (const std::int64_t window : {0, 40}) {
        const std::int64_t length = 150, prompt = 61;
        const std::string what = c10::toString(dtype) + std::string(" D ") + std::to_string(s.dim) +
                                 " window " + std::to_string(window);
        const Sequence x = make(length, s, dtype), other = make(length, s, dtype);
        // Large scores now and then, so that the running maximum moves.
        x.q.mul_(at::randint(1, 6, {length, 1, 1}).to(dtype));
        KvTiles whole(s.kv_heads, s.dim, dtype, length);
        whole.append(x.k, x.v);
        const Result right = empty_for(length, s, dtype);
        {
          const Threads one(1);
          attend_tiles(right.out, right.lse, x.q, {{0, length, {}, &whole, 0}}, {.window = window});
        }
        for (const int threads : {2, 3}) {
          const Threads several(threads);
          const Result again = empty_for(length, s, dtype);
          attend_tiles(again.out, again.lse, x.q, {{0, length, {}, &whole, 0}}, {.window = window});
          expect_same(again, right, what + " threads");
        }
        const Threads two(2);
        KvTiles tiles(s.kv_heads, s.dim, dtype, 1), others(s.kv_heads, s.dim, dtype, 1);
        const Result decoded = empty_for(length, s, dtype);
        tiles.append(x.k.narrow(0, 0, prompt), x.v.narrow(0, 0, prompt));
        attend_tiles(decoded.out, decoded.lse, x.q, {{0, prompt, {}, &tiles, 0}}, {.window = window});
        others.append(other.k.narrow(0, 0, 5), other.v.narrow(0, 0, 5));
        for (std::int64_t t = prompt; t < length; ++t) {
          const std::int64_t u = 5 + t - prompt;  // a batch of two sequences; the order of its rows changes
          tiles.append(x.k.narrow(0, t, 1), x.v.narrow(0, t, 1));
          others.append(other.k.narrow(0, u, 1), other.v.narrow(0, u, 1));
          const std::int64_t mine = t % 2;
          const at::Tensor rows[] = {x.q.narrow(0, t, 1), other.q.narrow(0, u, 1)};
          const at::Tensor q = at::cat({rows[mine], rows[1 - mine]}, 0);
          const Result r = empty_for(2, s, dtype);
          attend_tiles(r.out, r.lse, q,
                       {{mine, mine + 1, {}, &tiles, t}, {1 - mine, 2 - mine, {}, &others, u}},
                       {.window = window});
          decoded.out[t].copy_(r.out[mine]);
          decoded.lse[t].copy_(r.lse[mine]);
        }
        expect_same(decoded, right, what + " decode");
        // Calls of other sizes, which cut the rows into other blocks and pairs.
        const Result pieces = empty_for(length, s, dtype);
        for (std::int64_t t = 0, n = 1; t < length; t += n, n = n % 11 + 1) {
          const std::int64_t end = std::min(length, t + n);
          attend_tiles(pieces.out, pieces.lse, x.q, {{t, end, {}, &whole, t}}, {.window = window});
        }
        expect_same(pieces, right, what + " pieces");
      }
    }
  }
}

TEST_P(AttendTilesAt, SharedTilesGiveTheSameBitsToEverySharer) {
  at::manual_seed(13);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Shape s{6, 2, 32};
    const Sequence x = make(70 + 33, s, dtype);
    KvTiles prompt(s.kv_heads, s.dim, dtype, 70), own(s.kv_heads, s.dim, dtype, 33);
    prompt.append(x.k.narrow(0, 0, 70), x.v.narrow(0, 0, 70));
    own.append(x.k.narrow(0, 70, 33), x.v.narrow(0, 70, 33));
    const at::Tensor q = x.q.narrow(0, 70, 33);
    const Result alone = empty_for(33, s, dtype), both = empty_for(66, s, dtype);
    attend_tiles(alone.out, alone.lse, q, {{0, 33, {&prompt}, &own, 0}});
    attend_tiles(both.out, both.lse, at::cat({q, q}, 0),
                 {{0, 33, {&prompt}, &own, 0}, {33, 66, {&prompt}, &own, 0}});
    for (const std::int64_t begin : {0, 33}) {
      expect_same({both.out.narrow(0, begin, 33), both.lse.narrow(0, begin, 33)}, alone, "sharer");
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

}  // namespace attention_tiles_test
}  // namespace hone::ops
