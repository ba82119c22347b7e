#include "learn/sft_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "learn/golden.h"

namespace hone::learn {
namespace sft_loss_test {

at::Tensor targets_of(const nlohmann::json& recorded) {
  return test::tensor_of(recorded["targets"]).to(at::kLong);
}

TEST(SftLoss, FactsEqualTorch) {
  const auto& recorded = test::golden()["facts"];
  const TokenFacts facts = token_facts(test::tensor_of(recorded["logits"]), targets_of(recorded));
  EXPECT_TRUE(at::allclose(facts.logprob, test::tensor_of(recorded["logprob"]), 1e-6, 2e-6));
  EXPECT_TRUE(at::allclose(facts.entropy, test::tensor_of(recorded["entropy"]), 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(facts.is_top1, test::tensor_of(recorded["is_top1"])));
  EXPECT_EQ(facts.is_top1.scalar_type(), at::kFloat);
  EXPECT_GT(facts.is_top1.sum().item<double>(), 0);  // the fixture holds both cases
  EXPECT_LT(facts.is_top1.sum().item<double>(), 6);
}

TEST(SftLoss, LossAndGradientEqualTorch) {
  const auto& recorded = test::golden()["facts"];
  at::Tensor logits = test::tensor_of(recorded["logits"]).requires_grad_(true);
  const TokenFacts facts = token_facts(logits, targets_of(recorded));
  EXPECT_FALSE(facts.entropy.requires_grad());
  EXPECT_FALSE(facts.is_top1.requires_grad());
  const at::Tensor loss = mean_loss(token_loss({}, facts.logprob), recorded["denominator"]);
  EXPECT_NEAR(loss.item<double>(), recorded["loss"].get<double>(), 1e-5);
  loss.backward();
  EXPECT_TRUE(at::allclose(logits.grad(), test::tensor_of(recorded["gradient"]), 1e-5, 1e-7));
}

// arXiv 2508.05629: -sg(p) log p, whose gradient is -p d log p.
TEST(SftLoss, DynamicFineTuning) {
  at::Tensor logprob = at::tensor({-0.5, -3.0}, at::kDouble).requires_grad_(true);
  const at::Tensor losses = token_loss({.type = SftLossType::kDft, .label_smoothing = 0.5}, logprob);
  EXPECT_NEAR(losses[0].item<double>(), 0.5 * std::exp(-0.5), 1e-12);
  EXPECT_NEAR(losses[1].item<double>(), 3.0 * std::exp(-3.0), 1e-12);
  mean_loss(losses, 4).backward();
  EXPECT_NEAR(logprob.grad()[1].item<double>(), -std::exp(-3.0) / 4, 1e-12);
}

// transformers' LabelSmoother, written out.
TEST(SftLoss, LabelSmoothing) {
  at::manual_seed(5);
  const at::Tensor logits = at::randn({6, 9});
  const at::Tensor targets = at::arange(6, at::kLong);
  const at::Tensor logp = at::log_softmax(logits, 1);
  const at::Tensor nll = -logp.gather(1, targets.unsqueeze(1)).squeeze(1);
  const at::Tensor expected = 0.8 * nll - 0.2 * logp.mean(1);
  const at::Tensor ours =
      token_loss({.label_smoothing = 0.2}, token_facts(logits, targets).logprob, mean_logprob(logits));
  EXPECT_TRUE(at::allclose(ours, expected, 1e-5, 1e-6));
  EXPECT_THROW(token_loss({.label_smoothing = 0.2}, nll), base::InternalError);
  EXPECT_TRUE(at::equal(token_loss({}, -nll), nll));
}

TEST(SftLoss, TheFirstOfEqualLogitsIsTop) {
  const at::Tensor logits = at::zeros({2, 4});
  const at::Tensor targets = at::arange(2, at::kLong);  // 0 is the first argmax, 1 is not
  const TokenFacts facts = token_facts(logits, targets);
  EXPECT_EQ(facts.is_top1[0].item<float>(), 1.0F);
  EXPECT_EQ(facts.is_top1[1].item<float>(), 0.0F);
  EXPECT_NEAR(facts.entropy[0].item<double>(), std::log(4.0), 1e-6);
}

TEST(SftLoss, AnImpossibleTokenHasNoEntropy) {
  at::Tensor logits = at::zeros({1, 4});
  logits[0][3] = -std::numeric_limits<float>::infinity();
  const TokenFacts facts = token_facts(logits, at::zeros({1}, at::kLong));
  EXPECT_NEAR(facts.entropy[0].item<double>(), std::log(3.0), 1e-6);
}

TEST(SftLoss, MoreRowsThanOneBlockAndNone) {
  at::manual_seed(4);
  const at::Tensor logits = at::randn({300, 5});
  const at::Tensor targets = at::zeros({300}, at::kLong);
  const at::Tensor logp = at::log_softmax(logits, 1);
  EXPECT_TRUE(at::allclose(token_facts(logits, targets).entropy, -(logp.exp() * logp).sum(1), 1e-5, 1e-6));
  EXPECT_EQ(token_facts(logits.narrow(0, 0, 0), targets.narrow(0, 0, 0)).entropy.numel(), 0);
}

TEST(SftLoss, AStepWithoutTargetsHasLossZero) {
  EXPECT_EQ(mean_loss(at::zeros({0}), 0).item<double>(), 0.0);
}

TEST(SftLoss, RefusesOtherShapes) {
  EXPECT_THROW(token_facts(at::zeros({2, 3, 4}), at::zeros({2}, at::kLong)), base::InternalError);
  EXPECT_THROW(token_facts(at::zeros({2, 3}), at::zeros({3}, at::kLong)), base::InternalError);
}

}  // namespace sft_loss_test
}  // namespace hone::learn
