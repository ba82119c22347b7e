#include "doctor/watch/saturation_watch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "doctor/number_format.h"
#include "doctor/watch/watch_limits.h"
#include "doctor/watch/watch_state.h"

namespace hone::doctor {

namespace {

constexpr std::size_t kMostRewards = 64;

double mean_of(const std::deque<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(1, values.size()));
}

}  // namespace

bool rises_by_rank(const std::deque<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j)
      sum += values[j] > values[i] ? 1 : values[j] < values[i] ? -1 : 0;
  }
  const double variance = n * (n - 1) * (2 * n + 5) / 18;
  constexpr double kOneSided = 1.645;  // p = 0.05
  return sum > 1 && (sum - 1) / std::sqrt(variance) > kOneSided;
}

SaturationWatch::SaturationWatch(std::int64_t total_batches, std::vector<double> weights)
    : weights_(std::move(weights)) {
  const double share =
      limits::kSaturatedShare * static_cast<double>(std::max<std::int64_t>(0, total_batches));
  window_ = static_cast<std::size_t>(std::clamp(std::ceil(share), static_cast<double>(limits::kSaturatedFrom),
                                                static_cast<double>(limits::kSaturatedMost)));
}

bool SaturationWatch::Reward::at_ceiling() const {
  const double limit = highest - limits::kSaturatedNear * (highest - lowest);
  return highest > lowest &&
         std::all_of(means.begin(), means.end(), [&](double one) { return one >= limit; });
}

bool SaturationWatch::Reward::began_below() const {
  return mean_of(first) < lowest + limits::kSolvedShare * (highest - lowest);
}

bool SaturationWatch::Reward::rises() const {
  return rises_by_rank(means);
}

Findings SaturationWatch::see(const train::RolloutFacts& rollouts) {
  if (rollouts.completions.empty()) return {};
  const std::size_t count = rollouts.reward_names.size();
  const bool same = rewards_.size() == count &&
                    std::equal(rewards_.begin(), rewards_.end(), rollouts.reward_names.begin(),
                               [](const Reward& one, const std::string& name) { return one.name == name; });
  if (!same) {
    rewards_.clear();
    for (const std::string& name : rollouts.reward_names) rewards_.push_back({.name = name});
  }
  for (std::size_t k = 0; k < count; ++k) {
    Reward& reward = rewards_[k];
    double sum = 0, scored = 0;
    for (const train::CompletionFacts& one : rollouts.completions) {
      if (k >= one.rewards.size() || std::isnan(one.rewards[k])) continue;
      const double value = one.rewards[k];
      reward.lowest = reward.seen ? std::min(reward.lowest, value) : value;
      reward.highest = reward.seen ? std::max(reward.highest, value) : value;
      reward.seen = true;
      sum += value;
      scored += 1;
    }
    if (scored > 0) reward.means.push_back(sum / scored);
    if (scored > 0 && reward.first.size() < limits::kBatchesToSpeak) reward.first.push_back(sum / scored);
    if (reward.means.size() > window_) reward.means.pop_front();
  }
  const auto is_full = [&](const Reward& one) { return one.means.size() == window_; };
  const auto weight = [&](std::size_t k) { return k < weights_.size() ? weights_[k] : 1.0; };
  if (count < 2 || !std::all_of(rewards_.begin(), rewards_.end(), is_full)) return {};
  const Reward *full = nullptr, *standing = nullptr;
  for (std::size_t k = 0; k < count; ++k) {
    const Reward& one = rewards_[k];
    if (weight(k) <= 0) continue;
    if (one.at_ceiling()) {
      if (one.began_below()) full = &one;
    } else if (one.rises() ||
               mean_of(one.means) > one.lowest + limits::kSolvedShare * (one.highest - one.lowest)) {
      return {};  // something is still learned, or is learned
    } else {
      standing = &one;
    }
  }
  if (full == nullptr || standing == nullptr) return {};
  base::Verdict found{.code = "RL-07", .level = base::Level::kWarn};
  found.what = "the reward " + full->name + " is at its ceiling, and " + standing->name + " stands at " +
               short_number(mean_of(standing->means));
  found.evidence = std::to_string(window_) + " generation batches: " + full->name + " " +
                   short_number(mean_of(full->means)) + " of at most " + short_number(full->highest) + ", " +
                   standing->name + " between " + short_number(standing->lowest) + " and " +
                   short_number(standing->highest) + " without a rise";
  found.cause =
      "the form is learned, and the answers are not: what is left of the reward is too rare, or cannot be "
      "learned from these prompts";
  if (standing->highest == standing->lowest)
    found.cause += ". A penalty that never applies looks the same, and is no fault";
  found.fix =
      "easier prompts, more of them or a denser " + standing->name + "; give " + full->name + " less weight";
  found.cost = "further steps teach the form only";
  Findings out;
  add_finding(out, std::move(found), "saturated");
  return out;
}

base::Json SaturationWatch::state() const {
  base::Json rewards = base::Json::array();
  for (const Reward& one : rewards_)
    rewards.push_back({{"name", one.name},
                       {"seen", one.seen},
                       {"lowest", one.lowest},
                       {"highest", one.highest},
                       {"first", one.first},
                       {"means", one.means}});
  return {{"rewards", rewards}};
}

void SaturationWatch::restore(const base::Json& state) {
  rewards_.clear();
  for (const base::Json& one : StateReader(state).list("rewards", kMostRewards)) {
    const StateReader in(one);
    rewards_.push_back({.name = in.text("name"),
                        .seen = in.flag("seen"),
                        .lowest = in.number("lowest"),
                        .highest = in.number("highest"),
                        .first = in.numbers<std::deque<double>>("first", limits::kBatchesToSpeak),
                        .means = in.numbers<std::deque<double>>("means", limits::kSaturatedMost)});
    while (rewards_.back().means.size() > window_) rewards_.back().means.pop_front();
  }
}

void SaturationWatch::reset_evidence() {
  for (Reward& one : rewards_) one.means.clear();
}

}  // namespace hone::doctor
