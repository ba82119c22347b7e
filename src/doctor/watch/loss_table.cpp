#include "doctor/watch/loss_table.h"

#include <cmath>
#include <cstdio>

#include "doctor/number_format.h"

namespace hone::doctor {

namespace {

using base::Level;
using base::Verdict;

constexpr double kNearZero = 1e-3;  // of a loss: it shows as 0.00
constexpr double kAllDead = 0.999;  // of shares, which are means of steps
constexpr double kMostlyCut = 0.8;  // axolotl's training_stability guide: above it is red
constexpr double kSameReward = 1e-9;

const double* find(const std::vector<train::NamedValue>& values, std::string_view name) {
  for (const auto& [key, value] : values) {
    if (key == name && std::isfinite(value)) return &value;
  }
  return nullptr;
}

// As the progress line shows it: four decimals, and no sign of what shows as 0.
std::string shown(double loss) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", std::abs(loss) < 0.00005 ? 0.0 : loss);
  return text;
}

std::string describe_gradient(const LossFacts& facts) {
  return "the gradient, of norm " + short_number(facts.grad_norm) + ", is what trains the adapter";
}

// What every row without a gradient has in common.
Verdict no_signal(const LossFacts& facts, std::string code, std::string what) {
  return {.code = std::move(code),
          .level = Level::kFail,
          .part = "run",
          .what = std::move(what),
          .evidence = "loss " + shown(facts.loss) + ", gradient " + short_number(facts.grad_norm) +
                      ", reward " + short_number(facts.reward) + ", dead groups " +
                      percent(facts.dead_groups) + ", cut " + percent(facts.cut),
          .not_this = "learning rate, optimizer or precision: there is no gradient that they could affect"};
}

Verdict healthy(std::string what, std::string evidence) {
  return {.code = "RL-01",
          .level = Level::kNote,
          .part = "run",
          .what = std::move(what),
          .evidence = std::move(evidence),
          .not_this = "a fault: watch the reward, not the loss"};
}

Verdict truncated(const LossFacts& facts) {
  Verdict out = no_signal(facts, "RL-03",
                          percent(facts.cut) +
                              " of the completions are cut at max_completion_length before they end; "
                              "no group differs in reward");
  out.cause = "suspected: the answer comes after the cap, so that no reward receives it";
  out.fix =
      "raise max_completion_length (its cost: memory and seconds in rollout), or ask for shorter answers";
  return out;
}

// "every completion" that the rewards speak of.
std::string every_one(const LossFacts& facts) {
  return facts.scored < 1 ? "every completion with a score (" + percent(facts.scored) + " of them)"
                          : "every completion";
}

Verdict unscored(const LossFacts& facts) {
  Verdict out = no_signal(facts, "RL-04", "no completion has a score: no advantage and no gradient");
  out.cause = "suspected: each reward returns None for what this model writes, or for these rows";
  out.fix = "`hone reward-test` shows what each reward gives; let one of them return a number";
  return out;
}

Verdict lowest(const LossFacts& facts) {
  if (facts.scored == 0) return unscored(facts);
  Verdict out = no_signal(facts, "RL-04",
                          every_one(facts) + " gets the lowest reward, " + short_number(facts.reward) +
                              ": no advantage and no gradient");
  out.cause = "suspected: the reward's parser never matches, or the task is too hard for this model (RL-02)";
  out.fix =
      "`hone reward-test` scores gold answers: if these do score, use easier prompts, a denser reward or "
      "more num_generations";
  return out;
}

Verdict highest(const LossFacts& facts) {
  Verdict out = no_signal(facts, "RL-02",
                          every_one(facts) + " gets the highest reward, " + short_number(facts.reward) +
                              ": no training signal is left");
  out.cause = "the prompts are too easy for this model, or the reward accepts any completion";
  out.fix = "use harder prompts, or a reward that still distinguishes answers";
  return out;
}

Verdict dead(const LossFacts& facts) {
  Verdict out = no_signal(
      facts, "RL-02",
      "in every group all rewards are equal (mean " + short_number(facts.reward) + "): all advantages are 0");
  out.cause = "prompts that always or never succeed, or a reward with too few levels";
  out.fix = "use prompts that sometimes succeed, more num_generations, or a reward with more levels";
  return out;
}

Verdict masked(const LossFacts& facts) {
  Verdict out = no_signal(facts, "RL-03", "every completion with a gradient was left out of the loss");
  out.cause = "mask_truncated_completions leaves out truncated ones: " + percent(facts.cut);
  out.fix = "raise max_completion_length, or set mask_truncated_completions: false";
  return out;
}

Verdict gradient_cut(const LossFacts& facts) {
  Verdict out = no_signal(facts, "GRAD-02",
                          "rewards differ within groups, but no trainable tensor receives a gradient");
  out.cause =
      "the path from the loss to the adapter is cut (GRAD-01, GRAD-02), or the adapter is frozen (GRAD-04)";
  out.fix = "`hone doctor` names the tensors; layer_form: plain uses libtorch's autograd instead";
  out.not_this = "rewards, prompts or max_completion_length: advantages are not 0";
  return out;
}

}  // namespace

std::optional<LossFacts> loss_facts(const train::StepFacts& step, double beta, std::int64_t rows) {
  const double* reward = find(step.metrics, "reward");
  if (reward == nullptr) return std::nullopt;
  LossFacts out{.loss = step.loss, .grad_norm = step.grad_norm, .reward = *reward, .beta = beta};
  const double* share = find(step.metrics, "dead_groups");
  if (share == nullptr) share = find(step.metrics, "frac_reward_zero_std");
  if (share != nullptr) out.dead_groups = *share;
  if (const double* cut = find(step.metrics, "completions/clipped_ratio")) out.cut = *cut;
  if (const double* skipped = find(step.metrics, "skipped_rows"); skipped != nullptr && rows > 0) {
    out.all_skipped = *skipped >= static_cast<double>(rows);
  }
  out.place = place_of(out.reward, out.reward, out.reward);
  return out;
}

RewardPlace place_of(double reward, double lowest_seen, double highest_seen) {
  if (highest_seen - lowest_seen <= kSameReward)
    return reward <= 0 ? RewardPlace::kLowest : RewardPlace::kHighest;
  if (reward <= lowest_seen + kSameReward) return RewardPlace::kLowest;
  return reward >= highest_seen - kSameReward ? RewardPlace::kHighest : RewardPlace::kBetween;
}

LossCase loss_case(const LossFacts& facts) {
  if (!std::isfinite(facts.loss) || !std::isfinite(facts.grad_norm)) return LossCase::kNotFinite;
  const bool near_zero = std::abs(facts.loss) < kNearZero;
  if (facts.grad_norm > 0) {
    if (!near_zero) return LossCase::kHealthyNonzero;
    return facts.beta > 0 ? LossCase::kHealthyKl : LossCase::kHealthyZero;
  }
  if (facts.dead_groups < kAllDead) {
    if (!facts.all_skipped) return LossCase::kGradientCut;
    return facts.masks_truncated && facts.cut > 0 ? LossCase::kMasked : LossCase::kUnknown;
  }
  if (facts.cut >= kMostlyCut && facts.place != RewardPlace::kHighest) return LossCase::kTruncated;
  switch (facts.place) {
    case RewardPlace::kLowest:
      return LossCase::kLowest;
    case RewardPlace::kHighest:
      return LossCase::kHighest;
    case RewardPlace::kBetween:
      return LossCase::kDead;
  }
  return LossCase::kUnknown;
}

Verdict loss_verdict(const LossFacts& facts) {
  const std::string loss = "loss " + shown(facts.loss);
  switch (loss_case(facts)) {
    case LossCase::kHealthyZero:
      return healthy(loss + " is expected here: the advantages of a group sum to 0",
                     describe_gradient(facts));
    case LossCase::kHealthyKl:
      return healthy(
          loss + " is expected here: the advantages of a group sum to 0; the rest is beta times KL",
          describe_gradient(facts));
    case LossCase::kHealthyNonzero:
      return healthy(
          loss +
              " does not measure progress: the advantages of a group sum to 0; the rest comes from lengths "
              "and the loss type",
          describe_gradient(facts));
    case LossCase::kTruncated:
      return truncated(facts);
    case LossCase::kLowest:
      return lowest(facts);
    case LossCase::kHighest:
      return highest(facts);
    case LossCase::kDead:
      return dead(facts);
    case LossCase::kMasked:
      return masked(facts);
    case LossCase::kGradientCut:
      return gradient_cut(facts);
    case LossCase::kNotFinite:
      return {
          .code = "NUM-02",
          .level = Level::kFail,
          .part = "run",
          .what = "the loss or its gradient is not finite",
          .evidence = "loss " + short_number(facts.loss) + ", gradient " + short_number(facts.grad_norm),
          .cause = "the learning rate is too high for this data and precision, or the base has bad values",
          .fix = "resume from the last checkpoint with a lower learning_rate"};
    case LossCase::kUnknown:
      break;
  }
  return {};
}

}  // namespace hone::doctor
