#include "doctor/watch/watch_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/files/file.h"
#include "base/strings/plural.h"
#include "doctor/number_format.h"
#include "doctor/watch/loss_table.h"
#include "doctor/watch/watch_limits.h"

namespace hone::doctor {

namespace {

using base::Level;

std::optional<double> metric(const train::StepFacts& step, std::string_view name) {
  for (const auto& [key, value] : step.metrics) {
    if (key == name && std::isfinite(value)) return value;
  }
  return std::nullopt;
}

// One more, or none again.
void count(std::int64_t& streak, bool seen) {
  streak = seen ? streak + 1 : 0;
}

std::string describe_steps(std::int64_t steps) {
  return base::counted(steps, "step") + " in a row";
}

double median(std::deque<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void keep(std::deque<double>& values, double value, std::int64_t most) {
  values.push_back(value);
  if (static_cast<std::int64_t>(values.size()) > most) values.pop_front();
}

}  // namespace

Findings PolicyWatch::see(const train::StepFacts& step, bool top, bool live) {
  Findings out;
  see_entropy(step, top, out);
  see_kl(step, out);
  see_ratio_gap(step, out);
  if (const auto facts = loss_facts(step, setup_.beta, setup_.rows)) {
    LossFacts known = *facts;
    known.masks_truncated = setup_.masks_truncated;
    const LossCase row = loss_case(known);
    count(no_gradient_, live && (row == LossCase::kGradientCut || row == LossCase::kMasked));
    if (no_gradient_ >= limits::kChecksToFail) {
      base::Verdict found = loss_verdict(known);
      found.evidence = describe_steps(no_gradient_) + ": " + found.evidence;
      add_finding(out, std::move(found), "no gradient");
    }
  }
  return out;
}

void PolicyWatch::see_entropy(const train::StepFacts& step, bool top, Findings& out) {
  if (const auto entropy = metric(step, "entropy")) {
    count(low_entropy_, *entropy < limits::kEntropyCollapse);
    if (low_entropy_ >= limits::kStepsOfCollapse) {
      add_finding(
          out,
          {.code = "RL-08",
           .level = top ? Level::kNote : Level::kWarn,
           .what = "the policy's entropy has collapsed: " + short_number(*entropy) + " nats per token",
           .evidence = describe_steps(low_entropy_) + " below " + short_number(limits::kEntropyCollapse),
           .cause = top ? "the reward is at its maximum: these prompts are solved"
                        : "suspected: it repeats one answer, and groups will become dead",
           .fix = "read completions/; lower learning_rate, raise beta or temperature, or resume from the "
                  "last healthy checkpoint"},
          "entropy");
    }
    count(high_entropy_, setup_.uniform > 0 && *entropy > limits::kEntropyOfGuessing * setup_.uniform);
    if (high_entropy_ >= limits::kStepsOfCollapse) {
      add_finding(out,
                  {.code = "RL-08",
                   .level = Level::kWarn,
                   .what = "the policy has become almost uniform: entropy " + short_number(*entropy) +
                           " nats per token, a uniform policy has " + short_number(setup_.uniform),
                   .evidence = describe_steps(high_entropy_) + " above " +
                               percent(limits::kEntropyOfGuessing) + " of ln V",
                   .cause = "suspected: learning_rate too high; or a base with random weights",
                   .fix = "lower learning_rate, raise beta, or resume from the last healthy checkpoint"},
                  "guessing");
    }
  }
}

void PolicyWatch::see_kl(const train::StepFacts& step, Findings& out) {
  if (const auto kl = metric(step, "kl")) {
    count(high_kl_, *kl > limits::kKlDiverged);
    if (high_kl_ >= limits::kStepsOfCollapse) {
      add_finding(out,
                  {.code = "RL-08",
                   .level = Level::kWarn,
                   .what = "the policy is far from its reference: KL " + short_number(*kl) +
                           " nats per "
                           "token",
                   .evidence = describe_steps(high_kl_) + " above " + short_number(limits::kKlDiverged),
                   .cause = "suspected: learning_rate too high for this beta",
                   .fix = "lower learning_rate, raise beta, or resume from the last healthy checkpoint"},
                  "kl");
    }
  }
}

void PolicyWatch::see_ratio_gap(const train::StepFacts& step, Findings& out) {
  const auto most = metric(step, "ratio_gap"), mean = metric(step, "ratio_gap_mean");
  if (!most && !mean) return;
  const double gap = mean ? *mean : *most;
  const double limit = mean                   ? limits::kMeanGap
                       : !setup_.bf16         ? limits::kGapFp32
                       : setup_.exact_kernels ? limits::kGapBf16
                                              : limits::kGapBf16Elsewhere;
  count(wide_gap_, gap > limit);
  if (gap <= limit) return;
  // A mean does not fail: the run goes on, with ratios that are right.
  const bool fails = !mean && gap > limits::kGapFailFactor * limit && wide_gap_ >= limits::kStepsOfCollapse;
  const std::string at_step = std::string("limit ") + short_number(limit) + " in " +
                              (setup_.bf16 ? "bf16" : "fp32") + ", at step " + std::to_string(step.step);
  if (mean) {
    return add_finding(
        out,
        {.code = "RL-10",
         .level = Level::kWarn,
         .what = "sampler and trainer disagree on a token's log-probability by " + short_number(gap) +
                 " on average",
         .evidence = at_step,
         .cause = "suspected: rounding, since both have other kernels on this device, or a defect of one",
         .not_this = "temperature, top_p or a stale copy of the weights: there is one copy",
         .fix = "dtype: float32 and bf16: false shows which; importance sampling corrects a small one "
                "(vllm_importance_sampling_correction)"});
  }
  add_finding(
      out, {.code = "RL-10",
            .level = fails ? Level::kFail : Level::kWarn,
            .what = "sampler and trainer disagree on a token's log-probability by " + short_number(gap),
            .evidence = at_step,
            .cause = "suspected: a defect of a kernel on this machine; here both use the same arithmetic",
            .not_this = "temperature, top_p or a stale copy of the weights: there is one copy",
            .fix = "dtype: float32 and bf16: false, or layer_form: plain; `hone doctor` measures it again"});
}

Findings TrendWatch::see(const train::StepFacts& step) {
  Findings out;
  seen_ += 1;
  if (loss_is_progress_ && !past_unknown_) judge_loss(step, out);
  judge_norm(step, out);
  return out;
}

double TrendWatch::usual_norm() const {
  if (norms_.size() < 2) return 0;
  return median(std::deque<double>(norms_.begin(), norms_.end() - 1));
}

void TrendWatch::judge_loss(const train::StepFacts& step, Findings& out) {
  if (seen_ <= limits::kInitialSteps) {
    initial_ += step.loss / static_cast<double>(limits::kInitialSteps);
    return;
  }
  if (step.step <= warmup_steps_) return;
  keep(losses_, step.loss, limits::kStepsAboveInitial);
  if (static_cast<std::int64_t>(losses_.size()) < limits::kStepsAboveInitial || initial_ <= 0) return;
  const double lowest = *std::min_element(losses_.begin(), losses_.end());
  if (lowest <= limits::kAboveWarn * initial_) return;
  const bool fails = lowest > limits::kAboveFail * initial_ && lowest > initial_ + 1;
  add_finding(
      out,
      {.code = "NUM-08",
       .level = fails ? Level::kFail : Level::kWarn,
       .what = "the loss has been above its initial value for " + std::to_string(losses_.size()) + " steps",
       .evidence = "began at " + short_number(initial_) + ", at least " + short_number(lowest) +
                   " since, now " + short_number(step.loss) + "; learning rate " +
                   short_number(step.learning_rate),
       .cause = "suspected: learning_rate too high for this data and rank",
       .fix = "resume from the last healthy checkpoint with a lower learning_rate; `hone lr-find` "
              "proposes one"},
      "loss");
}

void TrendWatch::judge_norm(const train::StepFacts& step, Findings& out) {
  const bool known = static_cast<std::int64_t>(norms_.size()) >= limits::kNormFrom;
  const double middle = known ? median(norms_) : 0;
  count(large_norms_, known && step.grad_norm > limits::kNormOverMedian * middle);
  if (step.grad_norm > 0) keep(norms_, step.grad_norm, limits::kNormHistory);
  if (large_norms_ < limits::kNormSteps) return;
  add_finding(
      out,
      {.code = "NUM-08",
       .level = Level::kWarn,
       .what = "gradients have grown: norm " + short_number(step.grad_norm) + ", " +
               short_number(step.grad_norm / middle) + " times the median",
       .evidence = describe_steps(large_norms_) + " above " + short_number(limits::kNormOverMedian) + " x " +
                   short_number(middle) + ", the median of the last " + std::to_string(norms_.size()),
       .cause = "suspected: learning_rate too high, or a change in the data",
       .fix = "lower learning_rate or max_grad_norm"},
      "gradient");
}

Findings MemoryWatch::see(std::int64_t step, std::int64_t total_steps, std::int64_t resident,
                          std::int64_t free) {
  Findings out;
  seen_ += 1;
  if (seen_ <= limits::kMemorySkip || resident == 0) return out;
  keep(resident_, static_cast<double>(resident), limits::kMemorySteps);
  if (static_cast<std::int64_t>(resident_.size()) < limits::kMemorySteps) return out;
  const auto n = static_cast<double>(resident_.size());
  const double mean_x = (n - 1) / 2, mean_y = std::accumulate(resident_.begin(), resident_.end(), 0.0) / n;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    const double dx = static_cast<double>(i) - mean_x, dy = resident_[i] - mean_y;
    xy += dx * dy;
    xx += dx * dx;
    yy += dy * dy;
  }
  const double slope = xy / xx;
  if (slope * n < limits::kMemoryGrowth || xy * xy < limits::kMemoryFit * xx * yy) return out;
  const auto left = static_cast<std::int64_t>(static_cast<double>(std::max<std::int64_t>(0, free)) / slope);
  if (step + left >= total_steps) return out;
  add_finding(
      out,
      {.code = "MEM-02",
       .level = left < limits::kMemoryStepsLeft ? Level::kFail : Level::kWarn,
       .what = "memory grows with every step: it will run out at about step " + std::to_string(step + left) +
               " of " + std::to_string(total_steps),
       .evidence = base::gigabytes(static_cast<std::int64_t>(resident_.front())) + " -> " +
                   base::gigabytes(resident) + " in " + std::to_string(resident_.size()) + " steps, " +
                   base::gigabytes(free) + " free",
       .cause = "suspected: a leak, or fragmentation, in a library or in a reward function",
       .fix = "save and continue in a new process: Ctrl-C, then --resume_from_checkpoint true; nothing is "
              "lost",
       .cost = "the steps since the last checkpoint, when the machine kills the run"});
  return out;
}

Findings PreferenceWatch::see(const train::StepFacts& step) {
  Findings out;
  const auto margin = metric(step, "rewards/margins"), chosen = metric(step, "rewards/chosen");
  if (!margin || !chosen) return out;
  seen_ += 1;
  // The first step's own policy is the reference; and a learning rate of 0 moves nothing.
  const bool still = std::abs(*margin) < limits::kStuckMargin && std::abs(*chosen) < limits::kStuckMargin;
  if (!still) {
    stuck_ = 0;
  } else if (step.learning_rate > 0 && !follows_) {
    stuck_ += 1;
  }
  if (stuck_ > limits::kStuckSteps) {
    add_finding(out,
                {.code = "PREF-01",
                 .level = Level::kFail,
                 .what = "the policy still equals the reference: rewards are exactly 0",
                 .evidence = describe_steps(stuck_) + ": loss " + short_number(step.loss) + ", margin " +
                             short_number(*margin) + ", learning rate " + short_number(step.learning_rate) +
                             " (0.693 is ln 2, the loss for equal log-probabilities)",
                 .cause = "the adapter is not trained, or the reference shares it",
                 .fix = "`hone doctor` shows which tensors receive a gradient"});
  }
  const auto logps = metric(step, "logps/chosen");
  if (!logps || past_unknown_) return out;
  constexpr double kNew = 0.1;
  if (seen_ <= limits::kInitialSteps) {  // one batch may be of short answers, another of long ones
    const double share = 1 / static_cast<double>(seen_);
    first_chosen_ += share * (*logps - first_chosen_);
    first_margin_ += share * (*margin - first_margin_);
    chosen_ = first_chosen_;
    margin_ = first_margin_;
    return out;
  }
  chosen_ += kNew * (*logps - chosen_);
  margin_ += kNew * (*margin - margin_);
  // Batches of other answers have other log-probabilities: against the reference those of the same answers fall.
  const bool moved = *chosen <= -limits::kChosenReward;
  const bool fell = moved && chosen_ < first_chosen_ - limits::kChosenFall * std::abs(first_chosen_);
  if (fell && margin_ > first_margin_ && seen_ > limits::kStepsAboveInitial) {
    add_finding(out,
                {.code = "PREF-02",
                 .level = Level::kWarn,
                 .what = "margins rise while the chosen answers become much less likely",
                 .evidence = "log p(chosen) " + short_number(first_chosen_) + " -> " + short_number(chosen_) +
                             ", margin " + short_number(first_margin_) + " -> " + short_number(margin_),
                 .cause = "the loss rewards only the margin; a small fall is normal, this one is not",
                 .fix = "generate and read some answers; lower learning_rate, raise beta, or add an NLL term "
                        "(dpo: sft in loss_type; cpo: cpo_alpha)"});
  }
  return out;
}

}  // namespace hone::doctor
