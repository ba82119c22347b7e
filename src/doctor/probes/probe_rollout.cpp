// Probe P6 (docs/design.md): real completions, before anything is trained. Do they end, do rewards tell them
// apart, how fast do they come?
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "doctor/checks/check_format.h"
#include "doctor/examination.h"
#include "doctor/probes/sampled_rollouts.h"
#include "model/config/rotations.h"
#include "train/batches/rollout_source.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kSeconds = 60, kUncappedSeconds = 30;
constexpr std::int64_t kUncappedPrompts = 16, kUncappedTokens = 2048;
constexpr double kSampleCutWarn = 0.3, kSampleCutFail = 0.8;  // axolotl's healthy and red; RL-03
constexpr double kDeadWarn = 0.5, kDeadGoal = 0.3;            // rewardspy's alert; RL-02
constexpr std::int64_t kEnoughSamples = 64;

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
}

// What the verdicts are made of.
struct Counted {
  double cut = 0, dead = 0;                           // shares
  double mean = 0, low = 0, high = 0, deviation = 0;  // of total rewards
  std::int64_t samples = 0, groups = 0, scored = 0;
  std::vector<double> lengths;
  double finished_mean = rewards::kNone, cut_mean = rewards::kNone;
};

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? rewards::kNone : sum / static_cast<double>(values.size());
}

Counted count(const SampledRollouts& sample) {
  Counted out;
  out.samples = static_cast<std::int64_t>(sample.completions.size());
  out.groups = sample.groups();
  std::vector<double> totals, finished, cut;
  std::int64_t dead = 0;
  for (std::size_t first = 0; first < sample.completions.size();
       first += static_cast<std::size_t>(sample.group)) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(sample.group); ++i) {
      out.lengths.push_back(static_cast<double>(sample.completions[i].ids.size()));
      const bool truncated = sample.completions[i].truncated;
      out.cut += truncated ? 1 : 0;
      if (std::isnan(sample.totals[i])) continue;
      totals.push_back(sample.totals[i]);
      (truncated ? cut : finished).push_back(sample.totals[i]);
      low = std::min(low, sample.totals[i]);
      high = std::max(high, sample.totals[i]);
    }
    dead += high <= low ? 1 : 0;  // or nobody scored it
  }
  out.cut /= static_cast<double>(std::max<std::int64_t>(1, out.samples));
  out.dead = static_cast<double>(dead) / static_cast<double>(std::max<std::int64_t>(1, out.groups));
  out.scored = static_cast<std::int64_t>(totals.size());
  if (totals.empty()) return out;
  out.mean = mean_of(totals);
  out.finished_mean = mean_of(finished);
  out.cut_mean = mean_of(cut);
  const auto [low, high] = std::minmax_element(totals.begin(), totals.end());
  out.low = *low;
  out.high = *high;
  for (const double value : totals) out.deviation += (value - out.mean) * (value - out.mean);
  out.deviation = std::sqrt(out.deviation / static_cast<double>(totals.size()));
  return out;
}

std::string describe_lengths(const std::vector<double>& lengths) {
  return "p50 " + format::number(quantile(lengths, 0.5)) + ", p95 " +
         format::number(quantile(lengths, 0.95)) + " tokens";
}

std::int64_t rounded_up(double tokens) {
  return (static_cast<std::int64_t>(tokens) + 31) / 32 * 32;
}

// How long completions are when the run's cap does not cut them.
struct Natural {
  double ended = 0;             // share
  std::vector<double> lengths;  // the cap's of those that it cuts
  std::int64_t cap = 0;
};

Natural uncapped(const train::RunView& run) {
  const std::int64_t cap = run.plan.policy.max_completion_length;
  const std::int64_t room =
      model::longest_generated(run.model->config()) - run.sampled().train_prompts.longest();
  Natural out{.cap = std::min({8 * cap, std::max(cap, kUncappedTokens), room})};
  if (out.cap <= cap) return out;
  const SampledRollouts sample = sample_rollouts(run, {.prompts = kUncappedPrompts,
                                                       .seconds = kUncappedSeconds,
                                                       .max_new_tokens = out.cap,
                                                       .samples = 1,
                                                       .scored = false});
  for (const train::RolloutSample& one : sample.completions) {
    out.lengths.push_back(static_cast<double>(one.ids.size()));
    out.ended += one.truncated ? 0 : 1;
  }
  out.ended /= static_cast<double>(sample.completions.size());
  return out;
}

// RL-03
Verdict judge_cut(const train::RunView& run, const Counted& found) {
  const std::int64_t cap = run.plan.policy.max_completion_length;
  Verdict out{.code = "RL-03"};
  out.what = format::percent(1 - found.cut, 1) + " of " + format::counted(found.samples, "completion") +
             " end by themselves within " + format::counted(cap, "token") + " (" +
             describe_lengths(found.lengths) + ")";
  if (found.cut <= kSampleCutWarn) return out;
  out.level = Level::kWarn;  // other prompts, or a policy that has learned to end, may do better
  out.what = format::percent(found.cut, 1) + " of " + format::counted(found.samples, "completion") +
             " are cut at " + format::counted(cap, "token") + " before they end";
  out.evidence = format::percent(found.dead, 1) + " of the groups dead";
  if (!std::isnan(found.cut_mean))
    out.evidence += "; mean reward " + format::number(found.cut_mean) + " of those cut";
  if (!std::isnan(found.finished_mean))
    out.evidence += ", " + format::number(found.finished_mean) + " of those that end";
  const Natural natural = uncapped(run);
  if (!natural.lengths.empty()) {
    out.evidence += "; without this cap " + describe_lengths(natural.lengths) + " (" +
                    format::percent(natural.ended, 1) + " end within " + std::to_string(natural.cap) + ")";
  }
  if (natural.lengths.empty() || natural.ended < 0.5) {
    out.cause = natural.cap > cap ? "the model hardly ever stops, within " + std::to_string(natural.cap) +
                                        " tokens either: check its stop tokens (DATA-04)"
                                  : "max_completion_length is already the most that the model's positions "
                                    "allow";
    out.fix =
        "an instruct model, a prompt that asks for a short answer, or generation_kwargs: {stop_strings: "
        "[...]}";
  } else {
    out.cause = "max_completion_length is below the natural length of an answer";
    out.fix = "max_completion_length: " + std::to_string(rounded_up(quantile(natural.lengths, 0.95))) +
              (natural.ended < 0.95 ? " or more" : "");
  }
  out.cost = format::percent(found.cut, 1) + " of the sampling compute";
  return out;
}

// The share of dead groups at group size `size`, over prompts whose rates are those of the sample.
double expected_dead(const std::vector<double>& rates, std::int64_t size) {
  double sum = 0;
  for (const double rate : rates) sum += dead_share(rate, size);
  return sum / static_cast<double>(rates.size());
}

// Of each group the share of its best reward, drawn towards that of all (`rate`) by one completion; empty:
// rewards take more than two values, which no rate describes.
std::vector<double> rates_of(const SampledRollouts& sample, const Counted& found, double rate) {
  std::vector<double> out;
  for (std::size_t first = 0; first < sample.totals.size(); first += static_cast<std::size_t>(sample.group)) {
    double best = 0, n = 0;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(sample.group); ++i) {
      const double value = sample.totals[i];
      if (std::isnan(value)) continue;
      if (value != found.low && value != found.high) return {};
      best += value == found.high ? 1 : 0;
      n += 1;
    }
    out.push_back((best + rate) / (n + 1));
  }
  return out;
}

// RL-02
Verdict judge_dead(const train::RunView& run, const SampledRollouts& sample, const Counted& found, bool cut) {
  Verdict out{.code = "RL-02"};
  const std::int64_t group = run.plan.policy.num_generations;
  out.what = format::percent(found.dead, 1) + " of " + format::counted(found.groups, "group") +
             " dead: useful compute " + format::percent(1 - found.dead, 1);
  out.evidence = "reward " + format::number(found.mean) + " +- " + format::number(found.deviation) +
                 ", from " + format::number(found.low) + " to " + format::number(found.high);
  if (found.scored == 0) {
    out.evidence = "no completion was scored";
  }
  const bool binary = found.scored > 0 && found.low < found.high;
  const double rate = binary ? (found.mean - found.low) / (found.high - found.low) : 0;
  const std::vector<double> rates = binary ? rates_of(sample, found, rate) : std::vector<double>();
  std::int64_t larger = 0;
  if (!rates.empty()) {
    out.evidence += "; solve rate " + format::percent(rate, 1) + ", expected " +
                    format::percent(dead_share(rate, group), 1) + " dead if all prompts were alike";
    for (std::int64_t size = group; size <= 256 && larger == 0; size *= 2) {
      if (expected_dead(rates, size) < kDeadGoal) larger = size;
    }
  }
  if (found.dead <= kDeadWarn) return out;
  out.level = Level::kWarn;  // of a sample
  out.what = format::percent(found.dead, 1) + " of " + format::counted(found.groups, "group") +
             " are dead: all rewards of a group are equal, so it has no gradient";
  if (cut) {
    out.cause = "completions are cut before their answer (RL-03)";
  } else if (found.scored > 0 && found.low == found.high) {
    const bool all = found.scored == found.samples;
    out.cause = (all ? "every completion earns " : "every completion with a score earns ") +
                format::number(found.mean) +
                ": suspected: a reward that never matches (RL-04), or a task far too hard or too easy";
  } else {
    out.cause = found.mean > (found.low + found.high) / 2 ? "the task is too easy for most prompts"
                                                          : "the task is too hard for most prompts";
  }
  out.fix = cut              ? "RL-03's"
            : larger > group ? "num_generations: " + std::to_string(larger) + " (" +
                                   format::percent(expected_dead(rates, larger), 1) +
                                   " dead expected), or prompts of medium difficulty"
                             : "use prompts that are sometimes solved, or a reward with more than two values";
  out.cost = format::percent(found.dead, 1) + " of the sampling compute";
  return out;
}

// RL-04 and RL-07 as far as samples tell: functions that give everything the same.
Verdicts judge_parts(const SampledRollouts& sample) {
  Verdicts out;
  for (std::size_t k = 0; k < sample.reward_names.size(); ++k) {
    std::vector<double> values;
    for (const train::RolloutSample& one : sample.completions) {
      if (!std::isnan(one.rewards[k])) values.push_back(one.rewards[k]);
    }
    if (static_cast<std::int64_t>(sample.completions.size()) < kEnoughSamples) continue;
    Verdict verdict{.code = "RL-04", .level = Level::kWarn};
    if (values.empty()) {
      verdict.what = "reward " + sample.reward_names[k] + " scores none of " +
                     format::counted(static_cast<std::int64_t>(sample.completions.size()), "completion");
      verdict.evidence = sample.warnings.empty() ? "None every time" : sample.warnings.front();
    } else {
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      if (*low != *high) continue;
      verdict.what = "reward " + sample.reward_names[k] + " gives all " +
                     format::counted(static_cast<std::int64_t>(values.size()), "completion") + " " +
                     format::number(*low);
      verdict.evidence = "one of them: `" + format::shown(sample.completions.front().text) + "`";
    }
    verdict.cause =
        "suspected: its pattern never matches, or the prompt does not ask for the form that it "
        "requires";
    verdict.fix = "run hone reward-test; describe the form in the prompt";
    verdict.cost = "a part of the reward without a training signal";
    out.push_back(std::move(verdict));
  }
  return out;
}

// RL-05, seen on real completions.
std::optional<Verdict> judge_warnings(const SampledRollouts& sample) {
  std::vector<std::string> missing;  // and not what was fixed
  for (const std::string& one : sample.warnings) {
    if (one.find("could not score") != std::string::npos || one.find("not scored") != std::string::npos)
      missing.push_back(one);
  }
  if (missing.empty()) return std::nullopt;
  Verdict out{.code = "RL-05", .level = Level::kWarn};
  out.what = format::counted(static_cast<std::int64_t>(missing.size()), "score") + " of " +
             format::counted(static_cast<std::int64_t>(sample.completions.size()), "real completion") +
             " missing";
  out.evidence = missing.front();
  // The number of the batch is the probe's own.
  if (const auto at = out.evidence.find(" of generation "); at != std::string::npos)
    out.evidence.erase(at, out.evidence.find(':', at) - at);
  out.cause = "an exception, a time-out, NaN or infinity in a reward function";
  out.fix = "return a finite number, or None for a sample that is not to be scored";
  out.cost = "samples without a reward in every batch";
  return out;
}

// RL-14
Verdict judge_speed(const train::RunView& run, const SampledRollouts& sample) {
  const double seconds = std::max(1e-9, sample.rollout_seconds);
  const double rate = static_cast<double>(sample.tokens) / seconds;
  const double each = static_cast<double>(sample.tokens) / static_cast<double>(sample.completions.size());
  const double batch = each * static_cast<double>(run.plan.policy.generation_batch_size) / rate;
  return {.code = "RL-14",
          .what = format::number(std::round(rate)) + " tokens/s sampled; about " +
                  format::number(std::round(10 * batch) / 10) + " s for a generation batch of " +
                  format::counted(run.plan.policy.generation_batch_size, "completion"),
          .evidence =
              "impossible here: keys and values are always cached while sampling, only the trainer "
              "recomputes; rewards took " +
              format::number(std::round(10 * sample.reward_seconds) / 10) + " s"};
}

}  // namespace

Verdicts probe_rollout(const train::RunView& run) {
  if (!run.samples() || run.sampled().train_prompts.rows.empty() || run.sampled().rewards.empty()) return {};
  if (run.sampled().function != nullptr) {
    return {
        {.code = "RL-05",
         .level = Level::kNote,
         .what = "nothing was sampled: the rollout function makes the completions, from the first step on"}};
  }
  SampledRollouts sample;
  try {
    sample = sample_rollouts(run, {.seconds = kSeconds});
  } catch (const base::UserError& error) {
    return {{.code = "RL-05",
             .level = Level::kFail,
             .what = "sampling and scoring the first prompts failed",
             .evidence = error.text().where + ": " + error.text().found,
             .cause = error.text().cause,
             .fix = error.text().fix,
             .cost = "the run ends at its first batch"}};
  }
  const Counted found = count(sample);
  Verdicts out;
  const Verdict cut = judge_cut(run, found);
  // Where rewards still tell completions apart, there is something to learn from.
  const bool wasted = found.cut > kSampleCutFail && found.dead > kSampleCutFail;
  out.push_back(judge_dead(run, sample, found, wasted));
  out.push_back(cut);
  for (Verdict& one : judge_parts(sample)) out.push_back(std::move(one));
  if (auto missing = judge_warnings(sample)) out.push_back(std::move(*missing));
  out.push_back(judge_speed(run, sample));
  out.push_back(
      {.code = "RL-15",
       .what = "impossible here: sequences are concatenated, without padding on either side",
       .evidence = "tests/rollout/generate_test.cpp (AnswersTheSameInEveryBatchAndWithLittleMemory)"});
  return out;
}

}  // namespace hone::doctor
