// KL at a teacher's most likely tokens: against the KL of whole distributions, against differences, and where nearly nothing is left.
#include "learn/divergence/top_k_divergence.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace hone::learn {
namespace top_k_divergence_test {

// More columns than a tile has.
constexpr std::int64_t kVocabulary = 1300, kRowsOfTest = 3;

at::Tensor logits(std::int64_t seed) {
  const double rate = 1.0 + 0.37 * static_cast<double>(seed);
  return 3 *
         at::sin(at::arange(kRowsOfTest * kVocabulary, at::kFloat) * rate).view({kRowsOfTest, kVocabulary});
}

DivergenceHead head_of(const at::Tensor& z) {
  return {.hidden = z, .weight = ops::Weight(at::eye(z.size(1), z.scalar_type()))};
}

TopKTeacher teacher_of(const at::Tensor& z, std::int64_t k) {
  const at::Tensor log_p = z.log_softmax(1);
  const at::Tensor ids = log_p.argsort(-1, /*descending=*/true).narrow(1, 0, k).contiguous();
  return {.ids = ids, .logprobs = log_p.gather(1, ids)};
}

double largest(const at::Tensor& x) {
  return x.abs().max().item<double>();
}

// With every token named there is no rest: loss and gradient are those of the forward KL.
TEST(TopKDivergence, OfAllTokensIsTheForwardKl) {
  const at::Tensor own = logits(1), other = logits(2);
  const DivergenceRows whole = divergence_gradient(head_of(own), head_of(other), {.beta = 0}, 0.5);
  const DivergenceRows found = top_k_gradient(head_of(own), teacher_of(other, kVocabulary), 1, 0.5);
  EXPECT_LT(largest(found.divergence - whole.divergence), 1e-5);
  EXPECT_LT(largest(found.entropy - whole.entropy), 1e-5);
  EXPECT_LT(largest(found.d_hidden - whole.d_hidden), 1e-6);
}

class TopK : public testing::TestWithParam<std::int64_t> {};

// The formula of the header in fp64, differentiated by libtorch.
TEST_P(TopK, LossAndGradientAreThoseOfTheFormulaAndBelowTheKl) {
  const TopKTeacher teacher = teacher_of(logits(2), GetParam());
  const at::Tensor own = logits(1);
  const at::Tensor z = (own.to(at::kDouble) / 1.5).requires_grad_(true);
  const at::Tensor log_p = z.log_softmax(1), r = teacher.logprobs.to(at::kDouble);
  const at::Tensor l = log_p.gather(1, teacher.ids), t = 1 - r.exp().sum(1), s = 1 - l.exp().sum(1);
  const at::Tensor expected = (r.exp() * (r - l)).sum(1) + t * (t.log() - s.log());
  (2 * expected).sum().backward();
  const DivergenceRows found = top_k_gradient(head_of(own), teacher, 1.5, 2);
  EXPECT_LT(largest(found.divergence - expected.detach()), 1e-5);
  EXPECT_LT(largest(found.d_hidden - z.grad() / 1.5), 1e-5);
  EXPECT_LT(largest(found.divergence - top_k_divergence(head_of(own), teacher, 1.5).divergence), 1e-7);
  const at::Tensor whole = divergence(head_of(own / 1.5), head_of(logits(2)), {.beta = 0}).divergence;
  EXPECT_TRUE((found.divergence <= whole + 1e-5).all().item<bool>());
  EXPECT_TRUE((found.divergence > 0).all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Counts, TopK, testing::Values(1, 8));

// The model is sure of one token, and the teacher is not: what the others have together is 1e-10, and its logarithm and the gradient of the
// named token keep their digits in bf16 too.
TEST(TopKDivergence, KeepsTheDigitsOfAnUnlikelyRest) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    at::Tensor own = at::zeros({1, kVocabulary});
    own[0][7] = 30;
    const double rest = std::log(kVocabulary - 1) - 30, t = 0.5;
    const TopKTeacher teacher{.ids = at::full({1, 1}, 7, at::kLong),
                              .logprobs = at::full({1, 1}, std::log(0.5))};
    const DivergenceRows found = top_k_gradient(head_of(own.to(dtype)), teacher, 1, 1);
    EXPECT_NEAR(found.divergence.item<double>(), 0.5 * std::log(0.5) + t * (std::log(t) - rest), 1e-4)
        << dtype;
    EXPECT_NEAR(found.d_hidden[0][7].item<double>(), 0.5, 2e-3) << dtype;
    EXPECT_NEAR(found.d_hidden[0][8].item<double>(), -t / (kVocabulary - 1), 4e-6) << dtype;
    EXPECT_NEAR(found.d_hidden.sum().item<double>(), 0, 5e-3) << dtype;
  }
}

}  // namespace top_k_divergence_test
}  // namespace hone::learn
