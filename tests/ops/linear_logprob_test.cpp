// The judge is fp64: torch's own fp32 log_softmax is off by 8e-6 over 49k classes.
#include "ops/head/linear_logprob.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/error.h"
#include "base/process/instruction_level.h"
#include "learn/sft_loss.h"

namespace hone::ops {
namespace linear_logprob_test {

constexpr double kNone = -std::numeric_limits<double>::infinity();

struct Case {
  at::Tensor hidden, head, targets;
};

Case make_case(std::int64_t n, std::int64_t width, std::int64_t vocabulary, double size = 1,
               at::ScalarType dtype = at::kFloat) {
  at::manual_seed(n + width + vocabulary);
  return {.hidden = (at::randn({n, width}) * size).to(dtype),
          .head = (at::randn({vocabulary, width}) / std::sqrt(static_cast<double>(width))).to(dtype),
          .targets = at::randint(vocabulary, {n}, at::kLong)};
}

// In fp64, under autograd.
struct Judged {
  at::Tensor logprob, entropy, is_top1, log_sum, gradient, weight_gradient;
};

Judged judge_logits(const at::Tensor& logits, const at::Tensor& targets, double temperature) {
  const at::Tensor x = logits.to(at::kDouble) / temperature;
  const at::Tensor z = at::log_softmax(x, 1);
  Judged judged;
  judged.logprob = z.gather(1, targets.unsqueeze(1)).squeeze(1);
  judged.entropy = -(z.exp() * z.clamp_min(-1e30)).sum(1);
  judged.is_top1 = x.argmax(1).eq(targets).to(at::kFloat);
  judged.log_sum = x.logsumexp(1);
  return judged;
}

// `upstream` is d loss / d logprob, [n].
Judged judge(const Case& c, double temperature, const at::Tensor& upstream) {
  const at::Tensor h = c.hidden.to(at::kDouble).detach().requires_grad_(true);
  const at::Tensor w = c.head.to(at::kDouble).detach().requires_grad_(true);
  Judged judged = judge_logits(at::matmul(h, w.t()), c.targets, temperature);
  (judged.logprob * upstream.to(at::kDouble)).sum().backward();
  judged.gradient = h.grad();
  judged.weight_gradient = w.grad();
  return judged;
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// Against the largest element: a matrix product's rounding is relative to its row.
double relative(const at::Tensor& a, const at::Tensor& b) {
  return worst(a, b) / b.abs().max().item<double>();
}

// Of 1 + its size, element by element.
double off(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs() / (1 + b.abs())).max().item<double>();
}

void expect_facts(const TokenLogprobs& facts, const Judged& judged, double tolerance) {
  EXPECT_LT(off(facts.logprob, judged.logprob), tolerance);
  EXPECT_LT(off(facts.entropy, judged.entropy), tolerance);
  EXPECT_LT(off(facts.log_sum, judged.log_sum), tolerance);
  EXPECT_TRUE(at::equal(facts.is_top1, judged.is_top1));
}

void expect_same_bits(const TokenLogprobs& a, const TokenLogprobs& b) {
  EXPECT_TRUE(at::equal(a.logprob, b.logprob));
  EXPECT_TRUE(at::equal(a.entropy, b.entropy));
  EXPECT_TRUE(at::equal(a.is_top1, b.is_top1));
  EXPECT_TRUE(at::equal(a.log_sum, b.log_sum));
}

TokenLogprobs select(const TokenLogprobs& facts, const at::Tensor& rows) {
  return {.logprob = facts.logprob.index_select(0, rows),
          .entropy = facts.entropy.index_select(0, rows),
          .is_top1 = facts.is_top1.index_select(0, rows),
          .log_sum = facts.log_sum.index_select(0, rows)};
}

class LinearLogprob : public testing::TestWithParam<base::InstructionLevel> {
 protected:
  void SetUp() override {
    if (!base::machine_has(GetParam())) GTEST_SKIP() << "this machine has no " << name_of(GetParam());
    force_ = std::make_unique<base::ForceInstructionLevel>(GetParam());
  }
  static bool has_own_gemm() {
    return GetParam() != base::InstructionLevel::kPlain &&
           Weight::can_pack(at::zeros({32, 2}, at::kBFloat16));
  }

 private:
  std::unique_ptr<base::ForceInstructionLevel> force_;
};

TEST_P(LinearLogprob, AgreesWithFp64) {
  struct Shape {
    std::int64_t n, width, vocabulary;
  };
  const std::vector<Shape> shapes = {{1, 7, 1},        {1, 64, 33},    {3, 17, 1000},
                                     {5, 16, 1024},    {33, 65, 1025}, {7, 33, 2081},
                                     {1030, 24, 1100}, {6, 40, 49152}, {2, 9, 50257}};
  for (const Shape& shape : shapes) {
    for (const double temperature : {1.0, 0.7, 3.0}) {
      SCOPED_TRACE(testing::Message()
                   << shape.n << " " << shape.width << " " << shape.vocabulary << " / " << temperature);
      const Case c = make_case(shape.n, shape.width, shape.vocabulary, 2);
      const Judged judged = judge(c, temperature, at::ones({shape.n}));
      const TokenLogprobs facts =
          linear_logprob(c.hidden, c.head, c.targets, {.gradient = true, .temperature = temperature});
      expect_facts(facts, judged, 2e-6);
      EXPECT_LE(worst(facts.gradient, judged.gradient), 2e-6);
      const TokenLogprobs alone = linear_logprob(c.hidden, c.head, c.targets, {.temperature = temperature});
      EXPECT_FALSE(alone.gradient.defined());
      if (shape.n < 1024) expect_same_bits(facts, alone);
    }
  }
}

TEST_P(LinearLogprob, FactsOfGivenLogitsAgreeWithFp64AndWithTheLoss) {
  at::manual_seed(3);
  for (const std::int64_t vocabulary : {1, 15, 1024, 1057, 50257}) {
    const at::Tensor logits = at::randn({9, vocabulary}) * 4;
    const at::Tensor targets = at::randint(vocabulary, {9}, at::kLong);
    for (const double temperature : {1.0, 0.3}) {
      expect_facts(logprob_of(logits, targets, temperature), judge_logits(logits, targets, temperature),
                   2e-7);
    }
    const learn::TokenFacts loss = learn::token_facts(logits, targets);
    const TokenLogprobs facts = logprob_of(logits, targets);
    EXPECT_LT(worst(facts.logprob, loss.logprob), 2e-5);  // torch's fp32 sums
    EXPECT_LT(worst(facts.entropy, loss.entropy), 2e-5);
    EXPECT_TRUE(at::equal(facts.is_top1, loss.is_top1));
  }
}

TEST_P(LinearLogprob, KeepsItsDigitsUnderLargeLogits) {
  at::manual_seed(4);
  const at::Tensor logits =
      at::randn({5, 3000}) + at::tensor({1e4, -1e4, 1e6, 0.0, -3e7}).unsqueeze(1).to(at::kFloat);
  const at::Tensor targets = at::randint(3000, {5}, at::kLong);
  const Judged judged = judge_logits(logits, targets, 1);
  const TokenLogprobs facts = logprob_of(logits, targets);
  EXPECT_LT(worst(facts.logprob, judged.logprob), 2e-6);
  EXPECT_LT(worst(facts.entropy, judged.entropy), 2e-6);
  EXPECT_LT(((facts.log_sum - judged.log_sum) / judged.log_sum).abs().max().item<double>(), 1e-7);
}

TEST_P(LinearLogprob, AnImpossibleTokenAddsNothing) {
  at::manual_seed(5);
  at::Tensor logits = at::randn({4, 3000});
  logits[0].slice(0, 0, 1024).fill_(kNone);  // a whole tile, the first
  logits[1].slice(0, 1024, 2048).fill_(kNone);
  logits[2].slice(0, 0, 3000, 2).fill_(kNone);
  logits[3].fill_(kNone);
  logits[3][2500] = 2.0F;
  const at::Tensor targets = at::tensor({1500, 3, 77, 2500}, at::kLong);
  expect_facts(logprob_of(logits, targets), judge_logits(logits, targets, 1), 2e-7);
  const TokenLogprobs impossible = logprob_of(logits, at::tensor({5, 1030, 4, 0}, at::kLong));
  EXPECT_TRUE(at::equal(impossible.logprob, at::full({4}, kNone)));
}

TEST_P(LinearLogprob, NanStaysNan) {
  at::Tensor logits = at::randn({3, 2000});
  logits[1][1999] = std::numeric_limits<float>::quiet_NaN();
  const TokenLogprobs facts = logprob_of(logits, at::zeros({3}, at::kLong));
  EXPECT_TRUE(facts.logprob.isnan().equal(at::tensor({0, 1, 0}).to(at::kBool)));
  EXPECT_TRUE(facts.entropy.isnan().equal(at::tensor({0, 1, 0}).to(at::kBool)));
}

TEST_P(LinearLogprob, TheFirstOfEqualPeaksIsTop) {
  at::Tensor logits = at::zeros({4, 2100});
  logits.slice(1, 1500, 1502).fill_(2.0F);
  logits.slice(1, 2050, 2051).fill_(2.0F);
  const TokenLogprobs facts = logprob_of(logits, at::tensor({1500, 1501, 2050, 0}, at::kLong));
  EXPECT_TRUE(facts.is_top1.equal(at::tensor({1.0F, 0.0F, 0.0F, 0.0F})));
}

TEST_P(LinearLogprob, RowsMayBeStrided) {
  const Case c = make_case(6, 32, 1100);
  const at::Tensor wide = at::randn({6, 50});
  at::Tensor hidden = wide.narrow(1, 9, 32);
  hidden.copy_(c.hidden);
  expect_facts(linear_logprob(hidden, c.head, c.targets), judge(c, 1, at::ones({6})), 1e-6);
  const at::Tensor logits = at::randn({6, 1300}).narrow(1, 3, 1100);
  expect_facts(logprob_of(logits, c.targets), judge_logits(logits, c.targets, 1), 2e-7);
  EXPECT_EQ(linear_logprob(hidden.narrow(0, 0, 0), c.head, c.targets.narrow(0, 0, 0), {.gradient = true})
                .gradient.size(0),
            0);
}

TEST_P(LinearLogprob, BackwardAgreesWithAutograd) {
  for (const std::int64_t n : {1, 37, 1030}) {
    const Case c = make_case(n, 24, 2090, 2);
    for (const double temperature : {1.0, 0.7}) {
      const at::Tensor upstream = at::randn({n});
      const Judged judged = judge(c, temperature, upstream);
      const TokenLogprobs facts = linear_logprob(c.hidden, c.head, c.targets, {.temperature = temperature});
      const HeadGradients gradients =
          linear_logprob_backward(c.hidden, c.head, c.targets, facts.log_sum, upstream, temperature);
      EXPECT_LT(relative(gradients.hidden, judged.gradient), 4e-6);
      EXPECT_LT(relative(gradients.weight, judged.weight_gradient), 4e-6);
    }
  }
}

// Sliced and transposed hidden states, which a pack of neighboring elements cannot hold as they are.
TEST_P(LinearLogprob, HiddenMayHaveAnyStridesForwardAndBackward) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Case c = make_case(37, 24, 1100, 1, dtype);
    const at::Tensor upstream = at::randn({37});
    const TokenLogprobs facts = linear_logprob(c.hidden, c.head, c.targets, {.gradient = true});
    const HeadGradients gradients =
        linear_logprob_backward(c.hidden, c.head, c.targets, facts.log_sum, upstream);
    const at::Tensor wide = at::zeros({37, 50}, c.hidden.options());
    wide.narrow(1, 9, 24).copy_(c.hidden);
    const at::Tensor every_other = at::zeros({37, 48}, c.hidden.options()).slice(1, 0, 48, 2);
    every_other.copy_(c.hidden);
    for (const at::Tensor& hidden : {wide.narrow(1, 9, 24), c.hidden.t().contiguous().t(), every_other}) {
      const TokenLogprobs again = linear_logprob(hidden, c.head, c.targets, {.gradient = true});
      EXPECT_LT(worst(again.logprob, facts.logprob), 1e-5);
      EXPECT_LT(worst(again.gradient, facts.gradient), 1e-5);
      EXPECT_LT(worst(head_logits(hidden, c.head), head_logits(c.hidden, c.head)), 1e-5);
      const HeadGradients back = linear_logprob_backward(hidden, c.head, c.targets, facts.log_sum, upstream);
      EXPECT_LT(relative(back.hidden, gradients.hidden), 4e-6);
      EXPECT_LT(relative(back.weight, gradients.weight), 4e-6);
    }
  }
}

// logits and products in bf16 elsewhere: only our own GEMM keeps fp32 to the end.
TEST_P(LinearLogprob, Bf16GradientIsGoodWhereTheModelIsSure) {
  Case c = make_case(40, 128, 3000, 1, at::kBFloat16);
  c.hidden = (c.head.index_select(0, c.targets).to(at::kFloat) * 12).to(at::kBFloat16);  // p(target) about 1
  const Judged judged = judge(c, 1, at::ones({40}));
  const TokenLogprobs facts = linear_logprob(c.hidden, c.head, c.targets, {.gradient = true});
  EXPECT_LT(worst(facts.logprob, judged.logprob), has_own_gemm() ? 1e-5 : 0.1);
  const at::Tensor error = (facts.gradient - judged.gradient).norm(2, 1) / judged.gradient.norm(2, 1);
  EXPECT_LT(error.max().item<double>(), has_own_gemm() ? 2e-3 : 0.1);
}

TEST_P(LinearLogprob, SamplerAndTrainerSayTheSame) {
  for (const std::int64_t n : {1, 3, 50}) {
    const Case c = make_case(n, 96, 5001, 2, at::kBFloat16);
    const TokenLogprobs trainer =
        linear_logprob(c.hidden, c.head, c.targets, {.gradient = true, .temperature = 0.8});
    const TokenLogprobs sampler = logprob_of(head_logits(c.hidden, c.head), c.targets, 0.8);
    if (has_own_gemm()) expect_same_bits(trainer, sampler);
    const Case wide = make_case(n, 96, 5001, 2);
    const TokenLogprobs facts = linear_logprob(wide.hidden, wide.head, wide.targets);
    EXPECT_LT(worst(facts.logprob, logprob_of(head_logits(wide.hidden, wide.head), wide.targets).logprob),
              2e-6);
  }
}

TEST_P(LinearLogprob, ARowsBitsAreItsOwn) {
  if (!has_own_gemm()) GTEST_SKIP() << "libtorch's GEMM promises no such thing";
  const Case c = make_case(1100, 96, 2100, 2, at::kBFloat16);
  const LogprobOptions options = {.gradient = true, .temperature = 1.3};
  const TokenLogprobs all = linear_logprob(c.hidden, c.head, c.targets, options);
  const at::Tensor rows = at::tensor({1099, 0, 517, 1023, 1024}, at::kLong);
  const TokenLogprobs few =
      linear_logprob(c.hidden.index_select(0, rows), c.head, c.targets.index_select(0, rows), options);
  expect_same_bits(select(all, rows), few);
  EXPECT_TRUE(at::equal(all.gradient.index_select(0, rows), few.gradient));
}

TEST_P(LinearLogprob, APackedHeadGivesTheSameBits) {
  const Case c = make_case(19, 70, 2081, 2, at::kBFloat16);
  if (!has_own_gemm() || !Weight::can_pack(c.head)) GTEST_SKIP() << "no packs here";
  const Weight packed = Weight::packed_where_possible(c.head);
  const TokenLogprobs a = linear_logprob(c.hidden, c.head, c.targets, {.gradient = true});
  const TokenLogprobs b = linear_logprob(c.hidden, packed, c.targets, {.gradient = true});
  expect_same_bits(a, b);
  EXPECT_TRUE(at::equal(a.gradient, b.gradient));
}

TEST_P(LinearLogprob, RefusesWhatIsNotOfItsShape) {
  const Case c = make_case(3, 8, 40);
  EXPECT_THROW(linear_logprob(c.hidden, c.head, c.targets + 40), base::InternalError);
  EXPECT_THROW(linear_logprob(c.hidden.to(at::kBFloat16), c.head, c.targets), base::InternalError);
  EXPECT_THROW(linear_logprob(c.hidden, c.head, c.targets, {.temperature = 0}), base::InternalError);
  EXPECT_THROW(logprob_of(at::randn({2, 40}), c.targets), base::InternalError);
}

INSTANTIATE_TEST_SUITE_P(Levels, LinearLogprob, testing::ValuesIn(base::kInstructionLevels),
                         [](const auto& level) { return name_of(level.param); });

// What WPO and DPO's metrics ask for, in the fast form and the plain one.
TEST(LinearLogprob, SquaresAndMeanLogitsEqualTheJudge) {
  for (const auto level : {base::InstructionLevel::kPlain, base::instruction_level()}) {
    const base::ForceInstructionLevel forced(level);
    for (const double size : {1.0, 6.0}) {
      const Case c = make_case(7, 24, 2500, size);
      const Weight head(c.head);
      const TokenLogprobs facts =
          linear_logprob(c.hidden, head, c.targets, {.temperature = 0.7, .squares = true});
      const at::Tensor logits = at::matmul(c.hidden.to(at::kDouble), c.head.to(at::kDouble).t());
      const at::Tensor z = at::log_softmax(logits / 0.7, 1);
      EXPECT_LT(off(facts.log_sum_squares, (2 * z).logsumexp(1)), 2e-6);
      EXPECT_LT(off(c.hidden.mv(mean_row(head)), logits.mean(1)), 1e-6);
      expect_same_bits(facts, linear_logprob(c.hidden, head, c.targets, {.temperature = 0.7}));
    }
  }
}

}  // namespace linear_logprob_test
}  // namespace hone::ops
