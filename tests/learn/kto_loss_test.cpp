// Against autograd through TRL's formula, in fp64.
#include "learn/kto_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace hone::learn {
namespace kto_loss_test {

KtoTokens some_tokens(std::vector<std::uint8_t> desirable, double kl) {
  KtoTokens out{
      .desirable = std::move(desirable), .scored = {2, 1, 3}, .reference = {-4, -0.5, -6}, .kl = kl};
  out.logprob = at::tensor({-1.0, -2.5, -0.75, -3.0, -0.25, -1.5}, at::kDouble);
  out.entropy = at::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, at::kDouble);
  out.mean_logit = at::tensor({0.5, 0.25, -1.0, 2.0, 1.0, 0.0}, at::kDouble);
  return out;
}

// KTOTrainer._compute_loss, the losses of chosen rows before those of rejected ones.
at::Tensor loss_by_autograd(const at::Tensor& logprob, const KtoTokens& tokens,
                            const KtoLossOptions& options) {
  const at::Tensor sums = at::stack(
      {logprob.narrow(0, 0, 2).sum(), logprob.narrow(0, 2, 1).sum(), logprob.narrow(0, 3, 3).sum()});
  const at::Tensor x = sums - at::tensor(tokens.reference, at::kDouble);
  const double kl = options.type == KtoLossType::kKto ? std::max(0.0, tokens.kl) : 0;
  std::vector<at::Tensor> losses;
  for (std::int64_t i = 0; i < 3; ++i) {
    const bool desirable = tokens.desirable[static_cast<std::size_t>(i)] != 0;
    const at::Tensor y = desirable ? x[i] - kl : kl - x[i];
    losses.push_back((1 - at::sigmoid(options.beta * y)) *
                     (desirable ? options.desirable_weight : options.undesirable_weight));
  }
  return at::stack(losses).mean();
}

TEST(KtoLoss, EqualsAutograd) {
  for (const KtoLossType type : {KtoLossType::kKto, KtoLossType::kApoZeroUnpaired}) {
    for (const double kl : {-0.5, 0.0, 1.75}) {
      const KtoLossOptions options{{.beta = 0.4, .desirable_weight = 1.2, .undesirable_weight = 0.7}, type};
      KtoTokens tokens = some_tokens({1, 0, 1}, kl);
      const at::Tensor logprob = tokens.logprob.clone().requires_grad_(true);
      const at::Tensor loss = loss_by_autograd(logprob, tokens, options);
      loss.backward();
      const KtoGradient found = kto_gradient(tokens, options);
      EXPECT_NEAR(found.loss, loss.item<double>(), 1e-12);
      EXPECT_TRUE(at::allclose(found.d_logprob.to(at::kDouble), logprob.grad(), 1e-6, 1e-9));
    }
  }
}

TEST(KtoLoss, MetricsAreTrls) {
  const KtoGradient found = kto_gradient(some_tokens({1, 0, 1}, 0.5), {{.beta = 0.1}});
  const std::map<std::string, double> metrics(found.metrics.begin(), found.metrics.end());
  EXPECT_EQ(metrics.at("kl"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("entropy"), 3.5);
  EXPECT_DOUBLE_EQ(metrics.at("logps/chosen"), (-3.5 - 4.75) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("logps/rejected"), -0.75);
  EXPECT_DOUBLE_EQ(metrics.at("rewards/chosen"), 0.1 * (0.5 + 1.25) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("rewards/rejected"), -0.025);
  EXPECT_DOUBLE_EQ(metrics.at("rewards/margins"), 0.1 * (0.5 + 1.25) / 2 + 0.025);
  EXPECT_DOUBLE_EQ(metrics.at("logits/chosen"), 3.75 / 5);
  EXPECT_DOUBLE_EQ(metrics.at("logits/rejected"), -1);
}

// Names of a side come only where it has rows; a negative estimate counts as 0, and apo shows none.
TEST(KtoLoss, OneSideAlone) {
  const KtoGradient found = kto_gradient(some_tokens({0, 0, 0}, -2), {});
  const std::map<std::string, double> metrics(found.metrics.begin(), found.metrics.end());
  EXPECT_EQ(metrics.at("kl"), 0);
  EXPECT_EQ(metrics.count("rewards/chosen") + metrics.count("rewards/margins"), 0U);
  EXPECT_EQ(metrics.count("rewards/rejected"), 1U);
  const KtoGradient apo = kto_gradient(some_tokens({1, 1, 1}, 3), {.type = KtoLossType::kApoZeroUnpaired});
  EXPECT_EQ(apo.metrics.front().second, 0);
}

TEST(KtoLoss, KnowsTrlsNames) {
  EXPECT_EQ(kto_loss_type("kto"), KtoLossType::kKto);
  EXPECT_EQ(kto_loss_type("apo_zero_unpaired"), KtoLossType::kApoZeroUnpaired);
  EXPECT_THROW(kto_loss_type("bco"), base::InternalError);
}

}  // namespace kto_loss_test
}  // namespace hone::learn
