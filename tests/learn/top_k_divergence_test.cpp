// KL at a teacher's most likely tokens: against the KL of whole distributions, and against differences.
#include "learn/sampled_divergence.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "learn/divergence.h"

namespace hone::learn {
namespace top_k_divergence_test {

constexpr std::int64_t kVocabulary = 13;

at::Tensor logits(std::int64_t seed) {
  return at::sin(at::arange(kVocabulary, at::kFloat) * (1.0 + 0.37 * static_cast<double>(seed)) +
                 static_cast<double>(seed))
      .view({1, kVocabulary});
}

// With every token named there is no rest: loss and gradient are those of the forward KL.
TEST(TopKDivergence, OfAllTokensIsTheForwardKl) {
  const ops::Weight identity(at::eye(kVocabulary));
  const DivergenceRows whole = divergence_gradient({.hidden = logits(1), .weight = identity},
                                                   {.hidden = logits(2), .weight = identity}, {.beta = 0}, 1);
  const at::Tensor own = logits(1).log_softmax(1)[0], other = logits(2).log_softmax(1)[0];
  const TopKDivergence found = top_k_divergence(own, other, kVocabulary, 1);
  EXPECT_NEAR(found.divergence, whole.divergence.item<double>(), 1e-5);
  // d l_i / d z_v = [i = v] - p_v
  const at::Tensor d = found.d_logprob - own.exp() * found.d_logprob.sum();
  EXPECT_LT((d - whole.d_hidden[0]).abs().max().item<double>(), 1e-5);
}

class TopK : public testing::TestWithParam<std::int64_t> {};

TEST_P(TopK, TheGradientIsThatOfTheLossAndItIsNoLargerThanTheKl) {
  const std::int64_t k = GetParam();
  const at::Tensor other = logits(2).log_softmax(1)[0],
                   order = other.argsort(-1, /*descending=*/true).narrow(0, 0, k);
  const auto loss = [&](const at::Tensor& z) {
    return top_k_divergence(z.log_softmax(1)[0].index_select(0, order), other.index_select(0, order), k, 1);
  };
  const at::Tensor z = logits(1), own = z.log_softmax(1)[0];
  const TopKDivergence found = loss(z);
  at::Tensor d = -own.exp() * found.d_logprob.sum();
  d.index_add_(0, order, found.d_logprob);
  for (std::int64_t v = 0; v < kVocabulary; ++v) {
    constexpr double kStep = 1e-2;
    at::Tensor more = z.clone(), less = z.clone();
    more[0][v] += kStep;
    less[0][v] -= kStep;
    EXPECT_NEAR(d[v].item<double>(), (loss(more).divergence - loss(less).divergence) / (2 * kStep), 1e-4)
        << v;
  }
  EXPECT_GT(found.divergence, 0);
  EXPECT_LE(found.divergence, (other.exp() * (other - own)).sum().item<double>() + 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Counts, TopK, testing::Values(1, 8));

}  // namespace top_k_divergence_test
}  // namespace hone::learn
