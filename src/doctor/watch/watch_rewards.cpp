#include "doctor/watch/watch_rewards.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/strings/plural.h"
#include "doctor/number_format.h"
#include "doctor/watch/loss_table.h"
#include "doctor/watch/watch_limits.h"

namespace hone::doctor {

namespace {

using base::Level;
using base::Verdict;

constexpr double kSame = 1e-9;  // of rewards and advantages
constexpr std::size_t kShownBytes = 160;

double spread(double sum, double squares, std::int64_t count) {
  if (count < 2) return 0;
  const auto n = static_cast<double>(count);
  return std::sqrt(std::max(0.0, squares / n - (sum / n) * (sum / n)));
}

double mean(double sum, std::int64_t count) {
  return sum / static_cast<double>(std::max<std::int64_t>(1, count));
}

std::string counted(std::int64_t batches, std::int64_t samples) {
  return base::counted(samples, "completion") + " of " +
         base::counted(batches, "generation batch", "generation batches");
}

bool enough(std::int64_t batches, std::int64_t samples, std::int64_t least) {
  return batches >= limits::kBatchesToSpeak && samples >= least;
}

}  // namespace

void RewardWatch::Batch::add(const Batch& other) {
  samples += other.samples;
  scored += other.scored;
  groups += other.groups;
  dead += other.dead;
  unscored += other.unscored;
  cut += other.cut;
  cut_scored += other.cut_scored;
  at_highest += other.at_highest;
  long_enough += other.long_enough;
  repeating += other.repeating;
  reward += other.reward;
  reward_squares += other.reward_squares;
  cut_reward += other.cut_reward;
  cut_at_lowest = cut_at_lowest && other.cut_at_lowest;
  parts.resize(std::max(parts.size(), other.parts.size()));
  for (std::size_t k = 0; k < other.parts.size(); ++k) parts[k] += other.parts[k];
}

double RewardWatch::total_of(const train::CompletionFacts& one) const {
  double out = 0;
  bool scored = false;
  for (std::size_t k = 0; k < one.rewards.size(); ++k) {
    if (std::isnan(one.rewards[k])) continue;
    out += (k < weights_.size() ? weights_[k] : 1.0) * one.rewards[k];
    scored = true;
  }
  return scored ? out : std::numeric_limits<double>::quiet_NaN();
}

RewardWatch::Batch RewardWatch::sums_of(const train::RolloutFacts& rollouts) {
  for (const train::CompletionFacts& one : rollouts.completions) {
    const double total = total_of(one);
    if (std::isnan(total)) continue;
    const bool first = seen_batches_ == 0 && lowest_ > highest_;
    lowest_ = first ? total : std::min(lowest_, total);
    highest_ = first ? total : std::max(highest_, total);
  }
  Batch out{.samples = static_cast<std::int64_t>(rollouts.completions.size())};
  out.parts.resize(rollouts.reward_names.size());
  for (const train::CompletionFacts& one : rollouts.completions) {
    const double total = total_of(one);
    if (one.tokens >= limits::kRepeatsFrom) {
      out.long_enough += 1;
      if (one.most_common_fraction > limits::kOneToken) {
        out.repeating += 1;
        repeated_ = one.most_common_token;
      }
    }
    if (one.truncated) out.cut += 1;
    if (std::isnan(total)) continue;
    out.scored += 1;
    out.reward += total;
    out.reward_squares += total * total;
    if (total >= highest_ - kSame) out.at_highest += 1;
    if (one.truncated) {
      out.cut_scored += 1;
      out.cut_reward += total;
      out.cut_at_lowest = out.cut_at_lowest && total <= lowest_ + kSame;
    }
    for (std::size_t k = 0; k < std::min(out.parts.size(), one.rewards.size()); ++k) {
      const double weight = k < weights_.size() ? weights_[k] : 1.0;
      if (!std::isnan(one.rewards[k])) out.parts[k] += weight * one.rewards[k];
    }
  }
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(1, group_size_));
  for (std::size_t begin = 0; begin + size <= rollouts.completions.size(); begin += size) {
    const auto first = rollouts.completions.begin() + static_cast<std::ptrdiff_t>(begin);
    out.groups += 1;
    // Prompts of a task that no reward is for.
    out.unscored += std::all_of(first, first + static_cast<std::ptrdiff_t>(size),
                                [this](const auto& one) { return std::isnan(total_of(one)); });
    out.dead += std::all_of(first, first + static_cast<std::ptrdiff_t>(size),
                            [](const auto& one) { return std::abs(one.advantage) < kSame; });
  }
  return out;
}

// A resumed run may have other rewards: what was seen of the old ones says nothing about them.
bool RewardWatch::of_these(const std::vector<std::string>& names) const {
  return components_.empty() ||
         std::equal(components_.begin(), components_.end(), names.begin(), names.end(),
                    [](const Component& one, const std::string& name) { return one.name == name; });
}

void RewardWatch::see_components(const train::RolloutFacts& rollouts) {
  if (components_.empty()) {
    for (const std::string& name : rollouts.reward_names) components_.push_back({.name = name});
  }
  for (const train::CompletionFacts& one : rollouts.completions) {
    for (std::size_t k = 0; k < std::min(components_.size(), one.rewards.size()); ++k) {
      Component& component = components_[k];
      const double value = one.rewards[k];
      component.skipped = component.skipped || std::isnan(value);
      if (std::isnan(value)) continue;
      if (component.count == 0) component.first = value;
      component.count += 1;
      component.varied = component.varied || std::abs(value - component.first) > kSame;
      component.sample = excerpt(one.completion, kShownBytes, /*from_end=*/true);
    }
  }
}

RewardWatch::Batch RewardWatch::window() const {
  Batch out;
  for (const Batch& one : batches_) out.add(one);
  return out;
}

Findings RewardWatch::see(const train::RolloutFacts& rollouts) {
  if (rollouts.completions.empty()) return {};  // an evaluation's warnings
  if (!of_these(rollouts.reward_names)) *this = RewardWatch(group_size_, weights_, masks_truncated_, true);
  if (seen_batches_ == 0) lowest_ = 1, highest_ = 0;  // nothing seen
  const Batch batch = sums_of(rollouts);
  if (lowest_ > highest_) lowest_ = highest_ = 0;  // not one was scored
  see_components(rollouts);
  batches_.push_back(batch);
  if (static_cast<std::int64_t>(batches_.size()) > limits::kBatchesInWindow) batches_.pop_front();
  seen_batches_ += 1;
  if (seen_batches_ <= limits::kBatchesToSpeak) baseline_.add(batch);
  if (batch.groups > 0 && batch.dead == batch.groups) {
    streak_.add(batch);
    streak_batches_ += 1;
  } else {
    streak_ = {};
    streak_batches_ = 0;
    ever_live_ = true;
  }

  Findings out;
  const Batch all = window();
  judge_dead(out);
  judge_components(out);
  if (seen_batches_ == 1 && !past_unknown_) judge_first(batch, out);
  if (!enough(static_cast<std::int64_t>(batches_.size()), all.samples, limits::kSamplesToWarn)) return out;
  judge_cut(all, out);
  judge_balance(all, out);
  judge_spread(all, out);
  judge_repeats(all, out);
  return out;
}

// Rewards of weight 0 have no say, whatever they score.
void RewardWatch::explain_by_weights(Verdict& found) const {
  const bool none =
      !weights_.empty() && std::all_of(weights_.begin(), weights_.end(), [](double one) { return one == 0; });
  const auto varies = [](const Component& one) { return one.varied; };
  const auto varying = std::find_if(components_.begin(), components_.end(), varies);
  if (none) {
    found.cause = "every weight of reward_weights is 0: the sum is 0 for every completion";
    found.fix = "reward_weights: 1 for each reward that counts";
  } else if (varying != components_.end()) {
    const auto at = static_cast<std::size_t>(varying - components_.begin());
    if (at >= weights_.size() || weights_[at] != 0) return;
    found.cause = "the reward " + varying->name + " varies, and its weight in reward_weights is 0";
    found.fix = "give " + varying->name + " a weight";
  }
}

// All groups dead, batch after batch: the loss table says of what kind. And most of them dead.
void RewardWatch::judge_dead(Findings& out) const {
  if (enough(streak_batches_, streak_.samples, limits::kSamplesToWarn)) {
    const double reward = mean(streak_.reward, streak_.scored);
    const LossFacts facts = {.reward = reward,
                             .place = place_of(reward, lowest_, highest_),
                             .dead_groups = 1,
                             .cut = share(streak_.cut, streak_.samples),
                             .scored = share(streak_.scored, streak_.samples),
                             .masks_truncated = masks_truncated_};
    Verdict found = loss_verdict(facts);
    found.evidence = counted(streak_batches_, streak_.samples) + " without one advantage: " + found.evidence;
    const LossCase row = loss_case(facts);
    // A run that has learned ends here too: at the top, or where all its samples have come to agree.
    const bool may_be_the_end =
        (ever_live_ || past_unknown_) && (row == LossCase::kHighest || row == LossCase::kDead);
    // Of a past that is not known, live groups may have come before.
    const bool fails = streak_.samples >= limits::kSamplesToFail && (ever_live_ || !past_unknown_);
    found.level = may_be_the_end ? (row == LossCase::kHighest ? Level::kNote : Level::kWarn)
                                 : (fails ? Level::kFail : Level::kWarn);
    if (may_be_the_end && row == LossCase::kHighest) found.cause = "suspected: these prompts are solved";
    if (components_.size() == 1 && row == LossCase::kLowest) {
      found.evidence += "; a completion ends: \"" + components_.front().sample + "\"";
    }
    found.cost = "rollouts and steps since then had no gradient";
    explain_by_weights(found);
    add_finding(out, std::move(found));
    return;
  }
  const Batch all = window();
  const double dead = share(all.dead - all.unscored, all.groups - all.unscored);
  if (dead <= limits::kDeadShareWarn || dead == 1 ||
      !enough(static_cast<std::int64_t>(batches_.size()), all.samples, limits::kSamplesToWarn)) {
    return;
  }
  const bool reward_near_max = share(all.at_highest, all.scored) > limits::kCeilingRate;
  add_finding(
      out, {.code = "RL-02",
            .level = reward_near_max ? Level::kNote : Level::kWarn,
            .what = percent(dead) + " of the groups are dead: all their rewards are equal",
            .evidence =
                counted(static_cast<std::int64_t>(batches_.size()), all.samples) + ", mean reward " +
                short_number(mean(all.reward, all.scored)) + "; useful compute " +
                percent(1 - share(all.dead, all.groups)) +
                (all.unscored > 0 ? "; left out: " + base::counted(all.unscored, "group") + " without a score"
                                  : std::string()),
            .cause = reward_near_max ? "most completions already have the highest reward"
                                     : "prompts that always or never succeed, or a reward with too few "
                                       "levels",
            .fix = "leave out prompts that never or always succeed, raise num_generations, or use a denser "
                   "reward"});
}

// Before the first update: nearly all completions end at the cap, and not one of them has a reward.
void RewardWatch::judge_first(const Batch& first, Findings& out) const {
  const double cut = share(first.cut, first.samples);
  if (first.samples < limits::kSamplesOfFirst || cut <= limits::kCutFail || !first.cut_at_lowest) return;
  add_finding(out,
              {.code = "RL-03",
               .level = Level::kWarn,
               .what = percent(cut) + " of the first batch's completions are cut at max_completion_length",
               .evidence = std::to_string(first.cut) + " of " + std::to_string(first.samples) +
                           " completions, each with the lowest reward; before the first update",
               .cause = "suspected: the answer comes after the cap",
               .fix = "raise max_completion_length, or ask for shorter answers",
               .cost = "completions without training signal until they become shorter"},
              "first batch");
}

void RewardWatch::judge_cut(const Batch& all, Findings& out) const {
  const double cut = share(all.cut, all.samples);
  const bool all_dead = streak_batches_ >= static_cast<std::int64_t>(batches_.size());
  if (cut <= limits::kCutWarn || all_dead) return;  // of dead ones the loss table speaks
  const std::int64_t ended = all.scored - all.cut_scored;
  const double of_cut = mean(all.cut_reward, all.cut_scored);
  const double of_ended = mean(all.reward - all.cut_reward, ended);
  const double live = 1 - share(all.dead, all.groups);
  const bool wasted = cut > limits::kCutFail && all.cut_at_lowest && live < limits::kUsefulWhenCut &&
                      all.samples >= limits::kSamplesToFail && !past_unknown_;
  const bool harmless = ended > 0 && of_cut >= of_ended - kSame;
  add_finding(out, {.code = "RL-03",
                    .level = wasted     ? Level::kFail
                             : harmless ? Level::kNote
                                        : Level::kWarn,
                    .what = percent(cut) + " of the completions are cut at max_completion_length",
                    .evidence = counted(static_cast<std::int64_t>(batches_.size()), all.samples) +
                                ": mean reward of cut ones " + short_number(of_cut) + ", of those that end " +
                                (ended > 0 ? short_number(of_ended) : "none is there"),
                    .cause = harmless ? "the reward does not need the end of an answer"
                                      : "suspected: the answer comes after the cap",
                    .fix = "raise max_completion_length, ask for shorter answers, or set "
                           "mask_truncated_completions: true",
                    .cost = "useful groups " + percent(live)});
}

void RewardWatch::judge_components(Findings& out) const {
  if (components_.size() < 2) return;  // alone it is the reward: dead groups say so
  if (past_unknown_) return;           // it may have varied before
  for (const Component& one : components_) {
    if (one.varied || one.count < limits::kSamplesToWarn || seen_batches_ < limits::kBatchesToSpeak) continue;
    const bool at_bottom = one.first <= 0;
    add_finding(
        out,
        {.code = "RL-04",
         .level = at_bottom ? Level::kWarn : Level::kNote,
         .what = "the reward " + one.name + " gave " + short_number(one.first) + " to every completion" +
                 (one.skipped ? " that it scored" : ""),
         .evidence = base::counted(one.count, "completion") + "; one ends: \"" + one.sample + "\"",
         .cause = at_bottom ? "suspected: its parser or pattern never matches what this model writes"
                            : "every completion satisfies it: it does not distinguish completions",
         .not_this = "the other rewards: they may still rise",
         .fix = at_bottom
                    ? "`hone reward-test` shows what it gives gold answers; compare its pattern with the "
                      "completion above"
                    : "remove it, or make it more fine-grained"},
        one.name);
  }
}

void RewardWatch::judge_balance(const Batch& all, Findings& out) const {
  if (components_.size() < 2 || all.samples < limits::kSamplesToFail ||
      seen_batches_ < limits::kBatchesInWindow) {
    return;
  }
  double sum = 0;
  for (const double part : all.parts) sum += std::abs(part);
  for (std::size_t k = 0; k < std::min(all.parts.size(), components_.size()); ++k) {
    const bool others_vary = std::any_of(components_.begin(), components_.end(), [&](const Component& one) {
      return one.varied && one.name != components_[k].name;
    });
    if (sum <= 0 || !others_vary || std::abs(all.parts[k]) <= limits::kComponentShare * sum) continue;
    add_finding(
        out,
        {.code = "RL-07",
         .level = Level::kWarn,
         .what = "the reward " + components_[k].name + " is " + percent(std::abs(all.parts[k]) / sum) +
                 " of the total",
         .evidence = counted(static_cast<std::int64_t>(batches_.size()), all.samples),
         .cause = "suspected: a shortcut (a format, a length) is learned instead of the task",
         .fix = "read the best completions in completions/; lower its reward_weights, or give it only for "
                "correct answers"},
        components_[k].name);
  }
}

// The spread of the reward against the run's beginning: the top is reached, or everything has become alike.
void RewardWatch::judge_spread(const Batch& all, Findings& out) const {
  if (seen_batches_ < limits::kBatchesInWindow || all.samples < limits::kSamplesToFail || past_unknown_)
    return;
  const double before = spread(baseline_.reward, baseline_.reward_squares, baseline_.scored);
  const double now = spread(all.reward, all.reward_squares, all.scored);
  const double top = share(all.at_highest, all.scored);
  if (top > limits::kCeilingRate && highest_ - lowest_ > kSame) {
    add_finding(
        out,
        {.code = "RL-07",
         .level = Level::kNote,
         .what = percent(top) + " of the completions have the highest reward seen, " + short_number(highest_),
         .evidence = counted(static_cast<std::int64_t>(batches_.size()), all.samples),
         .cause = "the prompts are solved, or the reward has a shortcut: check completions/",
         .fix = "use harder prompts, or end the run"},
        "ceiling");
  } else if (before > kSame && now < limits::kSpreadLost * before && streak_batches_ == 0) {
    add_finding(out,
                {.code = "RL-07",
                 .level = Level::kWarn,
                 .what = "the standard deviation of rewards has fallen to " + percent(now / before) +
                         " of "
                         "its "
                         "initial "
                         "value",
                 .evidence = "standard deviation " + short_number(before) + " -> " + short_number(now),
                 .cause = "suspected: all completions have become similar",
                 .fix = "read completions/; raise temperature or beta, or lower learning_rate"},
                "spread");
  }
}

void RewardWatch::judge_repeats(const Batch& all, Findings& out) const {
  const double repeating = share(all.repeating, all.long_enough);
  if (all.long_enough < limits::kSamplesToWarn || repeating <= limits::kRepeatsWarn) return;
  add_finding(out,
              {.code = "RL-08",
               .level = repeating > limits::kRepeatsFail ? Level::kFail : Level::kWarn,
               .what = "in " + percent(repeating) + " of the completions one token is more than half of all",
               .evidence = std::to_string(all.repeating) + " of " + std::to_string(all.long_enough) +
                           " completions of at least " + std::to_string(limits::kRepeatsFrom) +
                           " tokens; the token: \"" + excerpt(repeated_, 24) + "\"",
               .cause = "suspected: the policy no longer generates text, or its logits are not finite",
               .fix = "resume from the last healthy checkpoint; lower learning_rate, or raise beta"},
              "repeats");
}

}  // namespace hone::doctor
