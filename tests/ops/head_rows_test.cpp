// A head with rows of its own in the place of the frozen matrix's is the head with those rows written into
// it.
#include "ops/head/head_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/process/instruction_level.h"
#include "ops/head/linear_logprob.h"

namespace hone::ops {
namespace head_rows_test {

class HeadRowsOf : public testing::TestWithParam<base::InstructionLevel> {
 protected:
  void SetUp() override {
    if (!base::machine_has(GetParam())) GTEST_SKIP() << "this machine has no " << name_of(GetParam());
    force_ = std::make_unique<base::ForceInstructionLevel>(GetParam());
  }

 private:
  std::unique_ptr<base::ForceInstructionLevel> force_;
};

// Rows in the first tile, at both ends of the second and in the last, narrow one, in no order.
const std::vector<std::int64_t> kIds = {2080, 7, 1024, 2047, 31, 500};
constexpr std::int64_t kVocabulary = 2090, kWidth = 48;

struct Case {
  at::Tensor hidden, head, rows, written, targets, d_logprob, d_entropy;
};

Case make_case(std::int64_t n, at::ScalarType dtype) {
  at::manual_seed(n);
  Case c{.hidden = (at::randn({n, kWidth}) * 2).to(dtype),
         .head = (at::randn({kVocabulary, kWidth}) / 7).to(dtype),
         .rows = (at::randn({static_cast<std::int64_t>(kIds.size()), kWidth}) / 4).to(dtype),
         .written = {},
         .targets = at::randint(0, kVocabulary, {n}, at::kLong),
         .d_logprob = at::randn({n}),
         .d_entropy = at::randn({n})};
  for (std::int64_t i = 0; i < n; i += 2) c.targets[i] = kIds[static_cast<std::size_t>(i / 2) % kIds.size()];
  c.written = c.head.index_copy(0, at::tensor(kIds, at::kLong), c.rows);
  return c;
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>() /
         b.to(at::kDouble).abs().max().item<double>();
}

TEST_P(HeadRowsOf, GiveTheFactsOfAHeadThatHoldsThem) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const bool exact = GetParam() != base::InstructionLevel::kPlain;
    for (const bool packed : {false, true}) {
      const Case c = make_case(1030, dtype);  // two blocks
      if (packed && !Weight::can_pack(c.head)) continue;
      const auto weight = [&](const at::Tensor& w) {
        return packed ? Weight::packed_where_possible(w) : Weight(w);
      };
      const Weight head = weight(c.head), written = weight(c.written);
      const HeadRows own{.ids = kIds, .rows = c.rows};
      const LogprobOptions options = {.gradient = true, .temperature = 0.8, .squares = true};
      LogprobOptions with = options;
      with.own = &own;
      const TokenLogprobs mine = linear_logprob(c.hidden, head, c.targets, with);
      const TokenLogprobs theirs = linear_logprob(c.hidden, written, c.targets, options);
      const at::Tensor logits = head_logits(c.hidden, head, &own), other = head_logits(c.hidden, written);
      const double bound = dtype == at::kFloat ? 1e-5 : 2e-2;
      if (exact) {
        EXPECT_TRUE(logits.equal(other));
        EXPECT_TRUE(mine.logprob.equal(theirs.logprob) && mine.entropy.equal(theirs.entropy) &&
                    mine.is_top1.equal(theirs.is_top1) && mine.log_sum_squares.equal(theirs.log_sum_squares));
        EXPECT_TRUE(logprob_of(logits, c.targets, 0.8).logprob.equal(mine.logprob));
      }
      EXPECT_LT(relative(logits, other), bound);
      EXPECT_LT(relative(mine.logprob, theirs.logprob), bound);
      EXPECT_LT(relative(mine.entropy, theirs.entropy), bound);
      EXPECT_LT(relative(mine.gradient, theirs.gradient), bound);
      EXPECT_TRUE(mine.own_logits.equal(logits.index_select(1, at::tensor(kIds, at::kLong))));
      EXPECT_LT(relative(entropy_backward(c.hidden, head, mine.log_sum, mine.entropy, c.d_entropy, 0.8, &own),
                         entropy_backward(c.hidden, written, mine.log_sum, mine.entropy, c.d_entropy, 0.8)),
                bound);
      EXPECT_LT(relative(mean_row(head) + mean_row_change(head, own), mean_row(written)), 1e-4);
      // It matters, or nothing was compared.
      EXPECT_GT(relative(linear_logprob(c.hidden, head, c.targets, options).logprob, theirs.logprob), 0.1);
    }
  }
}

TEST_P(HeadRowsOf, HaveTheGradientThatAutogradFinds) {
  for (const double temperature : {1.0, 0.7}) {
    for (const bool bonus : {false, true}) {
      const Case c = make_case(37, at::kFloat);
      const at::Tensor rows = c.rows.to(at::kDouble).requires_grad_(true);
      const at::Tensor w = c.head.to(at::kDouble).index_copy(0, at::tensor(kIds, at::kLong), rows);
      const at::Tensor z = at::log_softmax(c.hidden.to(at::kDouble).matmul(w.t()) / temperature, 1);
      at::Tensor loss = (z.gather(1, c.targets.unsqueeze(1)).squeeze(1) * c.d_logprob.to(at::kDouble)).sum();
      if (bonus) loss = loss - ((z.exp() * z).sum(1) * c.d_entropy.to(at::kDouble)).sum();
      loss.backward();

      const HeadRows own{.ids = kIds, .rows = c.rows};
      const TokenLogprobs found =
          linear_logprob(c.hidden, c.head, c.targets, {.temperature = temperature, .own = &own});
      const at::Tensor gradient = at::ones_like(c.rows);
      add_head_rows_gradient(gradient, own, found.own_logits,
                             {.hidden = c.hidden,
                              .targets = c.targets,
                              .log_sum = found.log_sum,
                              .d_logprob = c.d_logprob,
                              .entropy = found.entropy,
                              .d_entropy = bonus ? c.d_entropy : at::Tensor(),
                              .temperature = temperature});
      EXPECT_LT(relative(gradient - 1, rows.grad()), 1e-5) << temperature << " " << bonus;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, HeadRowsOf, testing::ValuesIn(base::kInstructionLevels),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace head_rows_test
}  // namespace hone::ops
