// Against autograd through the formula, in fp64.
#include "learn/reward_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace hone::learn {
namespace reward_loss_test {

const std::vector<double> kMargins = {0.5, -1.0, 3.0};

at::Tensor some_scores() {
  return at::tensor({0.3, -0.4, 2.0, 2.5, -30.0, 40.0}, at::kDouble);
}

at::Tensor loss_by_autograd(const at::Tensor& scores, bool margins, double center) {
  const at::Tensor pairs = scores.view({-1, 2}), c = pairs.select(1, 0), r = pairs.select(1, 1);
  const at::Tensor gap = margins ? c - r - at::tensor(kMargins, at::kDouble) : c - r;
  return -at::log_sigmoid(gap).mean() + center * (c + r).square().mean();
}

TEST(RewardLoss, EqualsAutograd) {
  for (const bool margins : {false, true}) {
    for (const double center : {0.0, 0.01}) {
      const at::Tensor scores = some_scores().requires_grad_(true);
      const at::Tensor loss = loss_by_autograd(scores, margins, center);
      loss.backward();
      const RewardGradient found = reward_gradient(scores, margins ? kMargins : std::vector<double>(),
                                                   center > 0 ? std::optional<double>(center) : std::nullopt);
      EXPECT_NEAR(found.loss, loss.item<double>(), 1e-12 * std::max(1.0, found.loss));
      EXPECT_TRUE(at::allclose(found.d_score, scores.grad(), 1e-10, 1e-14));
    }
  }
}

TEST(RewardLoss, MetricsAreTrls) {
  const auto found = reward_gradient(some_scores().to(at::kFloat), {}, std::nullopt);
  const std::map<std::string, double> metrics(found.metrics.begin(), found.metrics.end());
  EXPECT_NEAR(metrics.at("min_reward"), -30, 1e-5);
  EXPECT_NEAR(metrics.at("max_reward"), 40, 1e-5);
  EXPECT_NEAR(metrics.at("mean_reward"), 14.4 / 6, 1e-6);
  EXPECT_NEAR(metrics.at("accuracy"), 1.0 / 3, 1e-12);
  EXPECT_NEAR(metrics.at("margin"), (0.7 - 0.5 - 70) / 3, 1e-6);
}

TEST(RewardLoss, EqualScoresAreNotRight) {
  const auto found = reward_gradient(at::zeros({2}), {}, std::nullopt);
  EXPECT_EQ(found.metrics.at(3).second, 0);
  EXPECT_NEAR(found.loss, 0.6931471805599453, 1e-12);
}

TEST(RewardLoss, WantsWholePairs) {
  EXPECT_THROW(reward_gradient(at::zeros({3}), {}, std::nullopt), base::InternalError);
  EXPECT_THROW(reward_gradient(at::zeros({4}), {1.0}, std::nullopt), base::InternalError);
}

}  // namespace reward_loss_test
}  // namespace hone::learn
