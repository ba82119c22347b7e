#include "learn/advantages.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace hone::learn {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSpreadFloor = 1e-4;  // TRL's, in every division by a std
constexpr double kZeroSpread = 1e-8;   // torch.isclose(std, 0)

// Mean and Bessel-corrected spread of the numbers of a list that are not NaN.
struct Moments {
  std::int64_t count = 0;
  double mean = kNan, std = kNan;
  // all the same number, or fewer than two: the mean is then that number, without rounding
  bool equal = true;
};

template <typename At>
Moments moments(std::int64_t n, At at) {
  Moments out;
  double sum = 0, low = 0, high = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = at(i);
    if (std::isnan(x)) continue;
    low = out.count == 0 ? x : std::min(low, x);
    high = out.count == 0 ? x : std::max(high, x);
    sum += x;
    ++out.count;
  }
  if (out.count == 0) return out;
  out.equal = low == high;
  out.mean = out.equal ? low : sum / static_cast<double>(out.count);
  if (out.count < 2) return out;
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = at(i);
    if (!std::isnan(x)) squares += (x - out.mean) * (x - out.mean);
  }
  out.std = std::sqrt(squares / static_cast<double>(out.count - 1));
  return out;
}

Moments moments(std::span<const double> values) {
  return moments(static_cast<std::int64_t>(values.size()),
                 [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
}

// A checked table of fp32 rewards.
struct Table {
  std::int64_t rows, functions, group_size;
  std::vector<double> rewards, weights;

  double at(std::int64_t row, std::int64_t k) const {
    return rewards[static_cast<std::size_t>(row * functions + k)];
  }
  double weight(std::int64_t k) const { return weights[static_cast<std::size_t>(k)]; }
  std::int64_t groups() const { return rows / group_size; }
};

Table checked(const RewardTable& given) {
  constexpr auto kWhere = "learn::advantages";
  base::require(given.functions > 0 && given.group_size > 0, kWhere, "at least one function and generation");
  const auto numbers = static_cast<std::int64_t>(given.rewards.size());
  base::require(numbers > 0 && numbers % (given.functions * given.group_size) == 0, kWhere,
                "rewards of whole groups: rows x functions numbers, rows a multiple of group_size");
  base::require(given.weights.empty() || static_cast<std::int64_t>(given.weights.size()) == given.functions,
                kWhere, "one weight a reward function");
  Table out{.rows = numbers / given.functions, .functions = given.functions, .group_size = given.group_size};
  for (const double reward : given.rewards) {
    const double rounded = static_cast<float>(reward);
    base::require(!std::isinf(rounded), kWhere, "rewards to be finite in fp32, or NaN for None");
    out.rewards.push_back(rounded);
  }
  out.weights.assign(static_cast<std::size_t>(given.functions), 1.0);
  for (std::size_t k = 0; k < given.weights.size(); ++k)
    out.weights[k] = static_cast<float>(given.weights[k]);
  return out;
}

// sum_k w_k value(row, k) over numbers that are not NaN; NaN where the row is unscorable.
template <typename Value>
std::vector<double> weighted(const Table& table, Value value) {
  std::vector<double> out;
  for (std::int64_t row = 0; row < table.rows; ++row) {
    double sum = 0;
    bool scorable = false;
    for (std::int64_t k = 0; k < table.functions; ++k) {
      const double x = value(row, k);
      if (!std::isnan(x)) sum += table.weight(k) * x;
      scorable = scorable || !std::isnan(table.at(row, k));
    }
    out.push_back(scorable ? sum : kNan);
  }
  return out;
}

std::span<const double> group_of(const std::vector<double>& values, const Table& table, std::int64_t group) {
  return std::span(values).subspan(static_cast<std::size_t>(group * table.group_size),
                                   static_cast<std::size_t>(table.group_size));
}

// The metrics that do not depend on how advantages are made.
Advantages described(const Table& table, const std::vector<double>& sums) {
  Advantages out;
  out.unscorable_rows = std::ranges::count_if(sums, [](double x) { return std::isnan(x); });
  const Moments all = moments(sums);
  out.reward = all.mean;
  out.reward_std = all.std;
  for (std::int64_t k = 0; k < table.functions; ++k) {
    const Moments one = moments(table.rows, [&](std::int64_t row) { return table.at(row, k); });
    out.function_mean.push_back(one.mean);
    out.function_std.push_back(one.std);
  }
  return out;
}

// NaN -> 0, and the groups that are left with nothing.
void finish(Advantages& out, const Table& table) {
  for (double& a : out.advantages) a = std::isnan(a) ? 0.0 : a;
  for (std::int64_t g = 0; g < table.groups(); ++g)
    out.dead_groups +=
        std::ranges::all_of(group_of(out.advantages, table, g), [](double a) { return a == 0; });
}

// What the advantage of a whole batch is divided by; one number has no spread, and TRL then takes 0.
double batch_std(const std::vector<double>& values) {
  return values.size() > 1 ? moments(values).std : 0.0;
}

Advantages sum_then_normalize(const Table& table, ScaleRewards scale) {
  const std::vector<double> sums = weighted(table, [&](auto row, auto k) { return table.at(row, k); });
  Advantages out = described(table, sums);
  const double whole = batch_std(sums);
  std::int64_t zero = 0;
  for (std::int64_t g = 0; g < table.groups(); ++g) {
    const auto rewards = group_of(sums, table, g);
    const Moments group = moments(rewards);
    const double own = table.group_size > 1 ? group.std : 0.0;
    const double std = scale == ScaleRewards::kBatch ? whole : own;
    if (std <= kZeroSpread) zero += table.group_size;
    const double divisor = scale == ScaleRewards::kNone ? 1.0 : std + kSpreadFloor;
    for (const double reward : rewards) out.advantages.push_back((reward - group.mean) / divisor);
  }
  out.frac_reward_zero_std = static_cast<double>(zero) / static_cast<double>(table.rows);
  return out;
}

Advantages normalize_then_sum(const Table& table) {
  std::vector<double> z(table.rewards.size(), kNan);
  for (std::int64_t g = 0; g < table.groups(); ++g) {
    for (std::int64_t k = 0; k < table.functions; ++k) {
      const std::int64_t first = g * table.group_size;
      const Moments group = moments(table.group_size, [&](std::int64_t i) { return table.at(first + i, k); });
      const double std = table.group_size > 1 ? group.std : 0.0;
      for (std::int64_t i = 0; i < table.group_size; ++i)
        z[static_cast<std::size_t>((first + i) * table.functions + k)] =
            (table.at(first + i, k) - group.mean) / (std + kSpreadFloor);
    }
  }
  const auto z_at = [&](auto row, auto k) { return z[static_cast<std::size_t>(row * table.functions + k)]; };
  const std::vector<double> sums = weighted(table, z_at);
  Advantages out = described(table, weighted(table, [&](auto row, auto k) { return table.at(row, k); }));
  const double std = batch_std(sums);
  for (const double sum : sums) out.advantages.push_back(sum / (std + kSpreadFloor));
  out.frac_reward_zero_std = std <= kZeroSpread ? 1.0 : 0.0;
  return out;
}

}  // namespace

Advantages grpo_advantages(const RewardTable& given, const GrpoAdvantageOptions& options) {
  const Table table = checked(given);
  Advantages out = options.aggregation == Aggregation::kSumThenNormalize
                       ? sum_then_normalize(table, options.scale_rewards)
                       : normalize_then_sum(table);
  finish(out, table);
  return out;
}

Advantages rloo_advantages(const RewardTable& given, const RlooAdvantageOptions& options) {
  const Table table = checked(given);
  base::require(options.beta == 0 || static_cast<std::int64_t>(options.kl.size()) == table.rows,
                "learn::rloo_advantages", "one KL a row where beta is not 0");
  std::vector<double> rewards = weighted(table, [&](auto row, auto k) { return table.at(row, k); });
  Advantages out = described(table, rewards);
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    double& reward = rewards[i];
    if (options.reward_clip_range && !std::isnan(reward))
      reward = std::clamp(reward, options.reward_clip_range->first, options.reward_clip_range->second);
    if (options.beta != 0) reward -= options.beta * options.kl[i];
  }
  std::int64_t zero = 0;
  for (std::int64_t g = 0; g < table.groups(); ++g) {
    const auto group = group_of(rewards, table, g);
    const Moments facts = moments(group);
    zero += table.group_size == 1 || facts.std <= kZeroSpread;
    double sum = 0;
    for (const double reward : group) sum += std::isnan(reward) ? 0.0 : reward;
    for (const double reward : group) {
      const double baseline = (sum - reward) / static_cast<double>(facts.count - 1);
      const double advantage = facts.equal ? 0.0 : reward - baseline;
      out.advantages.push_back(std::isnan(reward) ? kNan : advantage);
    }
  }
  out.frac_reward_zero_std = static_cast<double>(zero) / static_cast<double>(table.groups());
  if (options.normalize_advantages) {
    // TRL's advantages of a group with one scorable row are NaN here, and its spread leaves them out.
    std::vector<double> counted = out.advantages;
    for (std::int64_t g = 0; g < table.groups(); ++g)
      if (table.group_size > 1 && moments(group_of(rewards, table, g)).count < 2)
        for (std::int64_t i = 0; i < table.group_size; ++i)
          counted[static_cast<std::size_t>(g * table.group_size + i)] = kNan;
    const double std = moments(counted).std;
    for (double& a : out.advantages) a /= std + kSpreadFloor;
  }
  finish(out, table);
  return out;
}

}  // namespace hone::learn
