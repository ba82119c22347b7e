// The policy gradient of distillation against its definition: its mean over a vocabulary of five is the gradient of the reverse
// KL, which learn/divergence/divergence.h computes from whole distributions.
#include "learn/divergence/sampled_divergence.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "learn/divergence/divergence.h"

namespace hone::learn {
namespace sampled_divergence_test {

TEST(SampledDivergence, ItsMeanIsTheGradientOfTheReverseKl) {
  constexpr std::int64_t kVocabulary = 5;
  // The hidden rows are the logits themselves: the heads are the identity.
  const at::Tensor student = at::tensor({0.3F, -1.0F, 0.8F, 0.1F, -0.4F}).view({1, kVocabulary});
  const at::Tensor teacher = at::tensor({1.1F, 0.2F, -0.6F, 0.0F, 0.5F}).view({1, kVocabulary});
  const ops::Weight identity(at::eye(kVocabulary));
  const DivergenceRows whole = divergence_gradient({.hidden = student, .weight = identity},
                                                   {.hidden = teacher, .weight = identity}, {.beta = 1}, 1);
  const at::Tensor log_s = student.log_softmax(1), log_t = teacher.log_softmax(1), p = log_s.exp();
  at::Tensor mean = at::zeros({kVocabulary});
  double loss = 0;
  for (std::int64_t v = 0; v < kVocabulary; ++v) {
    const SampledDivergence one = sampled_divergence(log_s.select(1, v), {}, log_t.select(1, v), {0}, {}, 1);
    // d log p(v) / d z = [v] - p
    at::Tensor d = -p[0].clone();
    d[v] += 1;
    mean += p[0][v] * one.d_logprob[0] * d;
    loss += p[0][v].item<double>() * one.loss;
  }
  EXPECT_NEAR(loss, whole.divergence.item<double>(), 1e-6);
  EXPECT_LT((mean - whole.d_hidden[0]).abs().max().item<double>(), 1e-6);
}

// By hand: k = o - r = (0.2, -0.3, 0.5), and another completion with k = 1.
TEST(SampledDivergence, LaterTokensOfACompletionCountDiscounted) {
  const at::Tensor sampler = at::tensor({-1.0F, -2.0F, -0.5F, -1.0F});
  const at::Tensor teacher = at::tensor({-1.2F, -1.7F, -1.0F, -2.0F});
  const at::Tensor student = sampler + at::tensor({0.0F, std::log(2.0F), 0.0F, 0.0F});
  const SampledDivergence found =
      sampled_divergence(student, sampler, teacher, {0, 0, 0, 1}, {.coef = 2, .discount = 0.5}, 0.25);
  // sums: 0.2 + 0.5 (-0.05), -0.3 + 0.5 0.5, 0.5 and 1; times the ratio, 1 but for the second, and coef
  const at::Tensor weighted = at::tensor({0.35F, -0.2F, 1.0F, 2.0F});
  EXPECT_LT((found.d_logprob - 0.25 * weighted).abs().max().item<double>(), 1e-6);
  EXPECT_NEAR(found.loss, weighted.sum().item<double>(), 1e-6);
  EXPECT_NEAR(found.teacher_kl, 1.4, 1e-6);
}

}  // namespace sampled_divergence_test
}  // namespace hone::learn
