// The loss of TRL 1.16's RewardTrainer (compute_loss): Bradley-Terry on the scores of a micro-batch of pairs.
// All arithmetic is fp64 on the CPU.
//
//   loss = mean_i -log sigmoid(c_i - r_i - m_i) + center * mean_i (c_i + r_i)^2
//
// c_i, r_i: scores of chosen and rejected; m_i: the row's margin, 0 where the data has none.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hone::learn {

struct RewardGradient {
  double loss = 0;
  at::Tensor d_score;  // [2B] fp64, CPU
  // (TRL's name, value) of the micro-batch: min_reward, mean_reward, max_reward, accuracy (c > r), margin
  // (mean c - r).
  std::vector<std::pair<std::string, double>> metrics;
};

// `scores` [2B], any floating dtype and device: chosen 0, rejected 0, chosen 1, ...; `margins` [B], or empty.
RewardGradient reward_gradient(const at::Tensor& scores, const std::vector<double>& margins,
                               std::optional<double> center_rewards_coefficient);

}  // namespace hone::learn
