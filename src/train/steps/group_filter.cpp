#include "train/steps/group_filter.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "base/rng.h"
#include "learn/advantages.h"

namespace hone::train {
namespace {

// A group in what was sampled: of the made batch `batch`, from sample `first` on.
struct Group {
  std::size_t batch = 0, first = 0;
};

// RLOO's sum of one sample, which it clips; not a number where no function has scored it.
double clipped_sum(std::span<const double> rewards, std::span<const double> weights,
                   const std::pair<double, double>& range) {
  double sum = 0;
  bool is_scored = false;
  for (std::size_t k = 0; k < rewards.size(); ++k) {
    if (std::isnan(rewards[k])) continue;
    sum += rewards[k] * (weights.empty() ? 1 : weights[k]);
    is_scored = true;
  }
  return is_scored ? std::clamp(sum, range.first, range.second) : std::nan("");
}

// Whether the group has an advantage, by the sums that the method's advantages are made of.
bool is_live(const RolloutBatch& batch, std::size_t first, std::size_t size,
             const config::PolicyPlan& policy) {
  // The rewards of environments come last and have no weight of their own: 1, as in score_rollouts().
  std::vector<double> weights = policy.reward_weights;
  if (!weights.empty()) weights.resize(batch.reward_names.size(), 1);
  std::vector<double> rewards;
  for (std::size_t i = first; i < first + size; ++i) {
    const std::vector<double>& own = batch.samples[i].rewards;
    if (policy.reward_clip_range) {
      rewards.push_back(clipped_sum(own, weights, *policy.reward_clip_range));
    } else {
      rewards.insert(rewards.end(), own.begin(), own.end());
    }
  }
  learn::RewardTable table{.rewards = rewards,
                           .functions = std::ssize(batch.reward_names),
                           .group_size = static_cast<std::int64_t>(size),
                           .weights = weights};
  if (policy.reward_clip_range) table.functions = 1, table.weights = {};
  const auto aggregation = policy.multi_objective_aggregation == "normalize_then_sum"
                               ? learn::Aggregation::kNormalizeThenSum
                               : learn::Aggregation::kSumThenNormalize;
  return learn::grpo_advantages(table,
                                {.scale_rewards = learn::ScaleRewards::kNone, .aggregation = aggregation})
             .dead_groups == 0;
}

// `count` of the rows 0..prompts-1 that are not in `used`, which then has them too; fewer where there are no more.
std::vector<std::int64_t> further_rows(std::set<std::int64_t>& used, std::int64_t prompts, std::size_t count,
                                       const base::Stream& random) {
  std::vector<std::int64_t> left;
  for (std::int64_t row = 0; row < prompts; ++row)
    if (!used.contains(row)) left.push_back(row);
  count = std::min(count, left.size());
  for (std::size_t i = 0; i < count; ++i) std::swap(left[i], left[i + random.bits(i) % (left.size() - i)]);
  left.resize(count);
  used.insert(left.begin(), left.end());
  return left;
}

template <typename T>
void move_all(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// One batch of these groups; numbers and messages of all.
SourcedRollouts joined(std::vector<SourcedRollouts>& made, const std::vector<Group>& groups,
                       std::size_t size) {
  SourcedRollouts out;
  out.batch.generation = made.front().batch.generation;
  out.batch.reward_names = made.front().batch.reward_names;
  out.batch.has_tools = made.front().batch.has_tools;
  out.facts.reward_names = made.front().facts.reward_names;
  std::vector<RolloutPrompt> prompts;
  for (const auto& [batch, first] : groups) {
    SourcedRollouts& from = made[batch];
    for (std::size_t i = first; i < first + size; ++i) {
      prompts.push_back(from.batch.prompts[from.batch.samples[i].prompt]);
      out.batch.samples.push_back(std::move(from.batch.samples[i]));
      out.facts.completions.push_back(std::move(from.facts.completions[i]));
    }
  }
  set_prompts(out.batch, std::move(prompts), static_cast<std::int64_t>(size));
  for (SourcedRollouts& one : made) {
    move_all(out.facts.warnings, one.facts.warnings);
    move_all(out.facts.printed, one.facts.printed);
    move_all(out.metrics, one.metrics);
    add_counts(out.counts, one.counts);
    out.rollout_seconds += one.rollout_seconds;
    out.reward_seconds += one.reward_seconds;
    out.facts.sampling_seconds += one.facts.sampling_seconds;
    out.facts.tool_wait_seconds += one.facts.tool_wait_seconds;
  }
  return out;
}

}  // namespace

SourcedRollouts sample_live_groups(RolloutSource& source, const RolloutRequest& request,
                                   const config::PolicyPlan& policy, std::uint64_t seed,
                                   std::int64_t prompts) {
  const auto size = static_cast<std::size_t>(request.num_generations);
  const std::size_t wanted = request.rows.size();
  std::set<std::int64_t> used(request.rows.begin(), request.rows.end());
  std::vector<SourcedRollouts> made;
  std::vector<Group> live, dead;
  std::size_t asked = 0;
  for (RolloutRequest part = request; !part.rows.empty();) {
    asked += part.rows.size();
    made.push_back(source.make(part));
    const RolloutBatch& batch = made.back().batch;
    for (std::size_t first = 0; first < batch.samples.size(); first += size)
      (is_live(batch, first, size, policy) ? live : dead).push_back({made.size() - 1, first});
    if (live.size() >= wanted || std::ssize(made) >= policy.max_num_gen_batches) break;
    const std::size_t missing = wanted - live.size();
    const std::size_t count = live.empty() ? wanted : (missing * asked + live.size() - 1) / live.size();
    const base::Stream random(seed, base::Purpose::kOrder, static_cast<std::uint64_t>(request.generation),
                              made.size());
    part.rows = further_rows(used, prompts, std::min(count, wanted), random);
    part.places.clear();
    for (std::size_t i = 0; i < part.rows.size(); ++i) part.places.push_back(asked + i);
  }
  live.resize(std::min(live.size(), wanted));
  const std::size_t taken = live.size();
  for (std::size_t i = 0; i < wanted - taken; ++i) live.push_back(dead[i]);
  SourcedRollouts out = joined(made, live, size);
  out.metrics.emplace_back("filtered_groups",
                           static_cast<double>(asked - wanted) / static_cast<double>(asked));
  out.metrics.emplace_back("num_gen_batches", static_cast<double>(made.size()));
  return out;
}

}  // namespace hone::train
