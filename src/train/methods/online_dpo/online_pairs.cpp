#include "train/methods/online_dpo/online_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace hone::train::online_dpo {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// fp32, as TRL adds: whether two scores are equal depends on it.
double score_of(const RolloutSample& sample, const config::Plan& plan) {
  const std::vector<double>& weights = plan.policy.reward_weights;
  float out = 0;
  bool scored = false;
  for (std::size_t k = 0; k < sample.rewards.size(); ++k) {
    if (std::isnan(sample.rewards[k])) continue;
    const auto weight = static_cast<float>(k < weights.size() ? weights[k] : 1.0);
    out += static_cast<float>(sample.rewards[k]) * weight;
    scored = true;
  }
  if (!scored) return kNone;
  if (sample.truncated && plan.online.missing_eos_penalty) {
    out -= static_cast<float>(*plan.online.missing_eos_penalty);
  }
  return out;
}

// The pair whose first completion is sample `first`.
OnlinePair pair_of(const RolloutBatch& batch, std::size_t first, const config::Plan& plan) {
  const std::size_t second = first + 1;
  const double scores[] = {score_of(batch.samples[first], plan), score_of(batch.samples[second], plan)};
  OnlinePair out{.chosen = first, .rejected = second};
  out.is_scored = !std::isnan(scores[0]) && !std::isnan(scores[1]);
  out.is_tie = scores[0] == scores[1];
  if (scores[0] < scores[1]) std::swap(out.chosen, out.rejected);
  out.score_chosen = scores[out.chosen - first];
  out.score_rejected = scores[out.rejected - first];

  const RolloutPrompt& prompt = batch.prompts[batch.samples[first].prompt];
  const std::size_t longer = std::max(batch.samples[first].ids.size(), batch.samples[second].ids.size());
  const auto limit = static_cast<std::size_t>(plan.max_length);
  const std::size_t room = limit > longer ? limit - longer : 1;
  const auto cut = static_cast<std::ptrdiff_t>(prompt.ids.size() - std::min(room, prompt.ids.size()));
  const std::vector<std::int32_t> context(prompt.ids.begin() + cut, prompt.ids.end());
  out.record.row = prompt.row;
  data::add_sequence(out.record, data::Part::kChosen, context, batch.samples[out.chosen].ids);
  data::add_sequence(out.record, data::Part::kRejected, context, batch.samples[out.rejected].ids);
  return out;
}

[[noreturn]] void throw_no_pairs(const std::string& where, const std::string& found) {
  throw base::UserError(
      {.where = where,
       .expected = "two completions of each prompt, next to each other and in the same slice",
       .found = found,
       .cause = "recorded by a run of another method or num_generations",
       .fix = "replay a file that `hone online-dpo --dump_rollouts` wrote"});
}

// Of each slice the first sample of each pair.
std::vector<std::vector<std::size_t>> firsts_of(const RolloutBatch& batch, std::int64_t prompts,
                                                const std::string& where) {
  std::vector<std::vector<std::size_t>> out;
  const auto size = static_cast<std::size_t>(2 * prompts);
  if (batch.slices.empty()) {
    for (std::size_t first = 0; first < batch.samples.size(); first += 2) {
      if (first % size == 0) out.emplace_back();
      out.back().push_back(first);
    }
    return out;
  }
  for (std::vector<std::size_t> slice : batch.slices) {
    std::sort(slice.begin(), slice.end());
    out.emplace_back();
    for (std::size_t i = 0; i < slice.size(); i += 2) {
      const bool whole = i + 1 < slice.size() && slice[i] % 2 == 0 && slice[i + 1] == slice[i] + 1;
      if (!whole) throw_no_pairs(where, "a slice with only one of the two");
      out.back().push_back(slice[i]);
    }
    if (out.back().empty()) throw_no_pairs(where, "an empty slice");
  }
  return out;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? kNone : sum / static_cast<double>(values.size());
}

}  // namespace

std::vector<std::vector<OnlinePair>> online_pairs(const RolloutBatch& batch, const config::Plan& plan,
                                                  std::int64_t vocab_size, const std::string& where) {
  if (batch.samples.empty() || batch.samples.size() % 2 != 0) {
    throw_no_pairs(where, std::to_string(batch.samples.size()) + " completions");
  }
  check_rollouts(batch, 2, vocab_size, where);
  std::vector<std::vector<OnlinePair>> out;
  for (const std::vector<std::size_t>& firsts : firsts_of(batch, plan.per_device_train_batch_size, where)) {
    out.emplace_back();
    for (const std::size_t first : firsts) out.back().push_back(pair_of(batch, first, plan));
  }
  return out;
}

std::vector<OnlinePair> trained_pairs(std::span<const OnlinePair> pairs, const config::Plan& plan) {
  std::vector<OnlinePair> out;
  for (const OnlinePair& one : pairs) {
    if (one.is_scored && !(one.is_tie && plan.online.skip_ties)) out.push_back(one);
  }
  return out;
}

std::vector<NamedValue> score_metrics(const RolloutBatch& batch, std::span<const OnlinePair> pairs,
                                      const config::Plan& plan) {
  std::vector<double> scores, margins, ended, ties, lengths;
  std::vector<std::vector<double>> by_function(batch.reward_names.size());
  const auto see = [&](std::size_t i, double score) {
    const RolloutSample& sample = batch.samples[i];
    if (!std::isnan(score)) scores.push_back(score);
    ended.push_back(sample.truncated ? 0 : 1);
    lengths.push_back(static_cast<double>(sample.ids.size()));
    for (std::size_t k = 0; k < by_function.size(); ++k) {
      if (!std::isnan(sample.rewards[k])) by_function[k].push_back(sample.rewards[k]);
    }
  };
  for (const OnlinePair& one : pairs) {
    see(one.chosen, one.score_chosen);
    see(one.rejected, one.score_rejected);
    if (!one.is_scored) continue;
    margins.push_back(one.score_chosen - one.score_rejected);
    ties.push_back(one.is_tie ? 1 : 0);
  }
  std::vector<NamedValue> out;
  if (plan.online.judge.empty()) {
    out = {{"objective/scores_margin", mean(margins)}, {"objective/scores", mean(scores)}};
  }
  out.emplace_back("val/contain_eos_token", mean(ended));
  out.emplace_back("ties", mean(ties));
  out.emplace_back("completions/mean_length", mean(lengths));
  for (std::size_t k = 0; by_function.size() > 1 && k < by_function.size(); ++k) {
    out.emplace_back("rewards/" + batch.reward_names[k] + "/mean", mean(by_function[k]));
  }
  return out;
}

}  // namespace hone::train::online_dpo
