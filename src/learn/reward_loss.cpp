#include "learn/reward_loss.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "learn/wide.h"

namespace hone::learn {

namespace {

// -log sigmoid(x) without overflow.
double softplus_of_minus(double x) {
  return std::max(-x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace

RewardGradient reward_gradient(const at::Tensor& scores, const std::vector<double>& margins,
                               std::optional<double> center_rewards_coefficient) {
  const at::Tensor values = wide(scores);
  const std::int64_t pairs = values.numel() / 2;
  base::require(pairs > 0 && values.numel() == 2 * pairs, "reward_gradient", "two scores a pair");
  base::require(margins.empty() || static_cast<std::int64_t>(margins.size()) == pairs, "reward_gradient",
                "a margin for each pair, or none");
  const double* score = values.const_data_ptr<double>();
  RewardGradient out;
  out.d_score = at::zeros({2 * pairs}, at::kDouble);
  double* d = out.d_score.mutable_data_ptr<double>();
  const double row_weight = 1 / static_cast<double>(pairs);
  double right = 0, margin = 0, sum = 0, center = 0;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double chosen = score[2 * i], rejected = score[2 * i + 1];
    const double gap = chosen - rejected - (margins.empty() ? 0 : margins[static_cast<std::size_t>(i)]);
    out.loss += softplus_of_minus(gap) * row_weight;
    d[2 * i] = -sigmoid(-gap) * row_weight;
    d[2 * i + 1] = sigmoid(-gap) * row_weight;
    center += (chosen + rejected) * (chosen + rejected) * row_weight;
    right += chosen > rejected ? row_weight : 0;
    margin += (chosen - rejected) * row_weight;
    sum += chosen + rejected;
  }
  if (center_rewards_coefficient) {
    out.loss += *center_rewards_coefficient * center;
    for (std::int64_t i = 0; i < 2 * pairs; ++i) {
      const double both = score[i - i % 2] + score[i - i % 2 + 1];
      d[i] += *center_rewards_coefficient * 2 * both * row_weight;
    }
  }
  const auto [least, most] = std::minmax_element(score, score + 2 * pairs);
  out.metrics = {{"min_reward", *least},
                 {"mean_reward", sum / static_cast<double>(2 * pairs)},
                 {"max_reward", *most},
                 {"accuracy", right},
                 {"margin", margin}};
  return out;
}

}  // namespace hone::learn
