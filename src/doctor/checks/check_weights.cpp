// RL-17: reward_weights by themselves. The sizes of the rewards are probe_reward's.
#include <algorithm>
#include <cmath>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kUnlike = 100;  // the largest weight, in smallest ones

}  // namespace

Verdicts check_weights(const train::RunView& run) {
  const std::vector<double>& weights = run.plan.policy.reward_weights;
  const std::vector<std::string>& words = run.plan.policy.reward_funcs;
  if (weights.empty() || weights.size() != words.size()) return {};
  double least = 0, most = 0;
  std::string zero, negative, all;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double size = std::abs(weights[i]);
    all += (all.empty() ? "" : ", ") + format::number(weights[i]) + " x " + words[i];
    if (size == 0) zero += (zero.empty() ? "" : ", ") + words[i];
    if (weights[i] < 0) negative += (negative.empty() ? "" : ", ") + words[i];
    if (size > 0) least = least == 0 ? size : std::min(least, size);
    most = std::max(most, size);
  }
  Verdicts out;
  Verdict one{.code = "RL-17", .level = Level::kWarn, .evidence = all};
  if (most == 0) {
    one.level = Level::kFail;
    one.what = "every weight of reward_weights is 0";
    one.cause = "the sum of the rewards is 0 for every completion";
    one.fix = "reward_weights: 1 for each reward that counts";
    one.cost = "every advantage and every gradient is 0";
    return {one};
  }
  if (!zero.empty()) {
    one.what = "reward_weights gives " + zero + " a weight of 0";
    one.cause = "a reward with this weight is called and logged, and changes nothing";
    one.fix = "leave the reward out, or keep it if it is only to be logged";
    one.cost = "its calls";
    one.level = Level::kNote;
    out.push_back(one);
  }
  if (!negative.empty()) {
    one.level = Level::kWarn;
    one.what = "reward_weights gives " + negative + " a negative weight";
    one.cause = "suspected: a sign that was turned twice, in the function and here";
    one.fix = "a positive weight; a penalty is a function that returns less for what is not wanted";
    one.cost = "the run learns what this reward is against";
    out.push_back(one);
  }
  if (most >= kUnlike * least) {
    one.level = Level::kWarn;
    one.what = "the largest of reward_weights is " + format::number(most / least) + " times the smallest";
    one.cause = "suspected: weights of another scale than the rewards";
    one.fix = "weights with which each reward's difference between a good and a bad completion is about 1";
    one.cost = "the smaller one's difference is lost in the larger one's noise";
    out.push_back(one);
  }
  if (out.empty()) out.push_back({.code = "RL-17", .what = "reward_weights: " + all});
  return out;
}

}  // namespace hone::doctor
