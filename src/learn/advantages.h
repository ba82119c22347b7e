// Rewards of groups to advantages, as TRL 1.16's GRPOTrainer and RLOOTrainer make them (both in
// _generate_and_score_completions). Numbers in, numbers out; nothing here sees a tensor.
//
// Rows are completions in the order of the generation batch: group_size completions of the first prompt, then
// of the second. A reward is a number or NaN, which is what TRL makes of a reward function's None. A row
// whose rewards are all NaN is unscorable: no mean, spread or baseline counts it and its advantage is 0.
//
// TRL rounds every reward to fp32, and so does this; all after that is fp64 here and fp32 in TRL. One
// difference can be seen: completions with equal rewards get the advantage 0 exactly here, while TRL's fp32
// mean of equal numbers may miss them by a rounding, which / (0 + 1e-4) makes up to 1e-4 of an advantage.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace hone::learn {

// rewards[row * functions + k] of function k; rows = rewards.size() / functions, a multiple of group_size.
// Infinite rewards are refused (base::InternalError): the rewards room has named sample and function before.
struct RewardTable {
  std::span<const double> rewards;
  std::int64_t functions = 1;
  std::int64_t group_size = 1;      // num_generations; 1 only in evaluation: every advantage is 0
  std::span<const double> weights;  // reward_weights, one a function; empty: all 1
};

enum class ScaleRewards { kGroup, kBatch, kNone };
enum class Aggregation { kSumThenNormalize, kNormalizeThenSum };

struct GrpoAdvantageOptions {
  ScaleRewards scale_rewards = ScaleRewards::kGroup;
  Aggregation aggregation = Aggregation::kSumThenNormalize;  // multi_objective_aggregation
};

struct RlooAdvantageOptions {
  bool normalize_advantages = false;
  std::optional<std::pair<double, double>> reward_clip_range;  // of the weighted sum, before the KL penalty
  double beta = 0;
  std::span<const double> kl;  // where beta is not 0: rloo_penalty's sum a row
};

struct Advantages {
  std::vector<double> advantages;  // one a row, finite
  // TRL's metrics, NaN where TRL's are; its log leaves NaN out of its averages.
  double reward = 0;                  // mean of the weighted sum over scorable rows, before clip and penalty
  double reward_std = 0;              // its spread over all scorable rows (n - 1), not a mean over groups
  double frac_reward_zero_std = 0;    // share of rows (RLOO: groups) whose std is within 1e-8 of 0
  std::vector<double> function_mean;  // rewards/<name>/mean, over rows that the function scored
  std::vector<double> function_std;   // rewards/<name>/std
  // hone's own: groups without training signal, all advantages 0: rewards all equal, or fewer than two
  // scorable. (scale_rewards batch and normalize_then_sum make frac_reward_zero_std 0 or 1, whatever the
  // groups are.)
  std::int64_t dead_groups = 0;
  std::int64_t unscorable_rows = 0;
};

// Formulas, std always with n - 1 and over scorable rows (trl.trainer.utils.nanstd), NaN -> 0 at the end:
//   sum_then_normalize   R_i = sum_k w_k r_ik (without NaN);  A_i = (R_i - mean_group R) / (s + 1e-4)
//                        s = std of the group (kGroup) or of the whole batch (kBatch); kNone: not divided
//   normalize_then_sum   z_ik = (r_ik - mean_group r_k) / (std_group r_k + 1e-4);  R_i = sum_k w_k z_ik;
//   (GDPO)               A_i = R_i / (std_batch R + 1e-4), scale_rewards is not used. TRL also takes off the
//                        mean of R over the batch, which is 0 but for rounding.
Advantages grpo_advantages(const RewardTable& table, const GrpoAdvantageOptions& options);

//   R_i = clip(sum_k w_k r_ik) - beta kl_i;  A_i = R_i - (sum_group R - R_i) / (scorable in the group - 1)
//   normalize_advantages: A_i / (std_batch A + 1e-4), where TRL again takes off a mean that is 0
Advantages rloo_advantages(const RewardTable& table, const RlooAdvantageOptions& options);

}  // namespace hone::learn
