// NUM-08: the peak learning rate, and how rank and scale of the adapter multiply it. Of the three the unusual
// one is named, with its own cure.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "train/loop/optimizer.h"
#include "train/methods/methods.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

// Of LoraSize::worth(), alpha and rank: what guides and published recipes use (docs/design.md, Thresholds).
constexpr double kLeastWorth = 0.1, kMostWorth = 10;
constexpr double kLeastAlpha = 4, kMostAlpha = 512;
constexpr std::int64_t kMostRank = 1024, kUsualRank = 16;
constexpr double kUsualScale = 2;
constexpr double kNearTheEnd = 2;  // of the range of rates: there an unusual scale is the cause already

// Adagrad, SGD and Lion take other rates, and nothing is recorded of them.
bool like_adam(const config::OptimizerPlan& plan) {
  using Kind = learn::OptimizerKind;
  return plan.optim == Kind::kAdamW || plan.optim == Kind::kAdamW8bit || plan.optim == Kind::kAdafactor ||
         plan.optim == Kind::kRmsprop;
}

// The rates of adapters are those of LoRA of rank 16 and scale 2; a tenth of them for the whole model. The
// usual rate of an adapter is already too much: that it was meant for one is the likely mistake.
Verdict check_full_rate(const train::RunView& run) {
  constexpr double kOfAdapters = 0.1;
  const train::LearningRates& rates = train::method_opening(run.plan.method).rates;
  const double usual =
      kOfAdapters * rates.usual * (run.start.trained.base_parameters > 1'000'000'000 ? 0.5 : 1);
  const double rate = run.plan.learning_rate;
  const std::string at = "learning_rate " + format::number(rate) + " for the whole model";
  Verdict out{.code = "NUM-08", .what = at};
  if (rate == 0) return out;  // NUM-09's
  const bool low = rate < kOfAdapters * rates.least, high = rate >= rates.usual;
  if (!like_adam(run.plan) || (!low && !high)) return out;
  out.level = Level::kWarn;
  out.what = at + (low ? " is too low" : " is too high for most runs");
  out.evidence = "usual is about " + format::number(usual) + ", a tenth of what adapters take";
  out.cause = low ? "" : "suspected: a rate for an adapter (use_peft: true)";
  out.fix = "learning_rate: " + format::number(usual);
  out.cost = low ? "a run without progress" : "loss that rises after the warm-up, and a model that forgets";
  return out;
}

// A LoRA by the size of its updates, which goes with the scale, and about with the root of the rank.
struct LoraSize {
  std::int64_t rank = 1;
  double scale = 0;
  std::string of = {};  // " of down_proj", where patterns give it another rank or scale than the config's

  // 1 at rank 16 and scale 2
  double worth() const { return scale / 2 * std::sqrt(static_cast<double>(rank) / 16); }
};

// The largest of the run: experts have a rank of their own (adapters/expert_targets.h), and so has what a
// pattern names.
LoraSize largest_size(const train::RunView& run) {
  const adapters::LoraConfig& config = run.adapter->config();
  std::optional<LoraSize> largest;
  for (const ops::Linear* linear : run.model->linears_and_head()) {
    if (!linear->lora) continue;
    LoraSize one{.rank = linear->lora->a.size(0) / linear->stacked, .scale = linear->lora->scale};
    const std::string& name = linear->named_in_adapters();
    if (one.rank != config.r || one.scale != config.scale())
      one.of = " of " + name.substr(name.rfind('.') + 1);
    if (!largest || one.worth() > largest->worth()) largest = one;
  }
  return largest.value_or(LoraSize{.rank = config.r, .scale = config.scale()});
}

// The three that make a step, each against its own usual range.
struct StepSize {
  LoraSize lora;
  double alpha = 0;
  bool rslora = false;
  double rate = 0, usual = 0;
  train::LearningRates rates;

  double effective() const { return rate * lora.worth(); }
  bool is_low() const { return effective() < rates.least; }
  bool is_high() const { return effective() > rates.most; }
  bool odd_rate() const { return rate < rates.least || rate > rates.most; }
  // The patterns of single modules are another matter than lora_r and lora_alpha.
  bool odd_size() const {
    return lora.of.empty() && (lora.worth() < kLeastWorth || lora.worth() > kMostWorth);
  }
  bool odd_alpha() const { return alpha < kLeastAlpha || alpha > kMostAlpha; }
  bool odd_rank() const { return lora.rank > kMostRank && !odd_alpha(); }
  bool odd_root() const {  // rslora makes of a usual alpha a large scale
    const double plain = alpha / static_cast<double>(lora.rank);
    return rslora && LoraSize{.rank = lora.rank, .scale = plain}.worth() <= kMostWorth && !odd_alpha();
  }
  double usual_alpha() const {
    const auto rank = static_cast<double>(lora.rank);
    return std::max(1.0, std::round(kUsualScale * (rslora ? std::sqrt(rank) : rank)));
  }
  // The rate that is worth the usual one at this rank and scale, or the nearest that is not unusual itself.
  double fitting_rate() const { return std::clamp(usual / lora.worth(), rates.least, rates.most); }
};

StepSize step_of(const train::RunView& run) {
  const train::LearningRates& rates = train::method_opening(run.plan.method).rates;
  // Larger models take smaller steps.
  const double usual = rates.usual * (run.start.trained.base_parameters > 1'000'000'000 ? 0.5 : 1);
  return {.lora = largest_size(run),
          .alpha = run.adapter->config().alpha,
          .rslora = run.adapter->config().rslora,
          .rate = run.plan.learning_rate,
          .usual = usual,
          .rates = rates};
}

std::string size_text(const StepSize& step) {
  return "lora_alpha " + format::number(step.alpha) + " with lora_r " + std::to_string(step.lora.rank) +
         (step.rslora ? " and use_rslora" : "");
}

std::string size_fix(const StepSize& step) {
  if (step.odd_rank()) return "lora_r: " + std::to_string(kUsualRank);
  if (step.odd_root()) return "use_rslora: false";
  return "lora_alpha: " + format::number(step.usual_alpha());
}

std::string size_cause(const StepSize& step) {
  if (step.odd_rank()) return "lora_r is far above what is usual for this lora_alpha";
  if (step.odd_root())
    return "use_rslora divides by the root of the rank, and lora_alpha was chosen for the rank";
  return "lora_alpha is far " + std::string(step.lora.worth() < 1 ? "below" : "above") +
         " lora_r; usual is once or twice lora_r";
}

std::string evidence_of(const StepSize& step) {
  const bool low = step.effective() < step.usual;
  return "worth " + format::number(step.effective()) +
         " at rank 16 and scale 2; usual with adapters is about " + format::number(step.usual) +
         (low ? ", the lowest that was seen to learn " : ", rarely above ") +
         format::number(low ? step.rates.least : step.rates.most);
}

// The scale is what is unusual: alone, or beside a rate that is.
Verdict judge_scale(const StepSize& step) {
  const bool small = step.lora.worth() < 1;
  const bool both = step.odd_rate();
  const bool near =
      step.effective() < kNearTheEnd * step.rates.least || step.effective() > step.rates.most / kNearTheEnd;
  Verdict out{.code = "NUM-08", .level = near ? Level::kWarn : Level::kNote};
  out.what = size_text(step) + " multiplies what the adapter adds by " + format::number(step.lora.scale) +
             ", which is unusually " + (small ? "small" : "large") +
             (both ? ", and learning_rate " + format::number(step.rate) + " is unusual too" : "");
  out.evidence = evidence_of(step);
  out.cause = size_cause(step);
  if (!both) out.not_this = "learning_rate: " + format::number(step.rate) + " is usual";
  out.fix = size_fix(step) + (both ? ", learning_rate: " + format::number(step.usual) : "");
  out.cost = small ? "a run without progress" : "loss that rises after the warm-up";
  return out;
}

}  // namespace

Verdict check_rate(const train::RunView& run) {
  if (run.adapter->is_full()) return check_full_rate(run);
  // Sources: TRL#2872 (5e-7 does not learn in GRPO), Tinker (adapters take ten times what full fine-tuning
  // does), our own runs (examples/, docs/log.md).
  const StepSize step = step_of(run);
  const std::string at = "learning_rate " + format::number(step.rate) + " with LoRA of rank " +
                         std::to_string(step.lora.rank) + " and scale " + format::number(step.lora.scale) +
                         step.lora.of;
  Verdict out{.code = "NUM-08", .what = at};
  if (step.rate == 0) return out;  // NUM-09's
  if (!like_adam(run.plan)) return out;
  const bool outside = step.is_low() || step.is_high();
  if (step.odd_size() && (outside || !step.odd_rate())) return judge_scale(step);
  if (!outside) return out;
  out.level = Level::kWarn;
  out.what = at + (step.is_low() ? " is too low" : " is too high for most runs");
  out.evidence = evidence_of(step);
  out.cause = step.is_low()
                  ? "suspected: a rate for full fine-tuning (TRL's defaults do not change with use_peft); "
                    "adapters take about ten times as much"
              : step.odd_rate() ? "no adapter takes so large a rate, whatever its rank and scale"
                                : "suspected: a rate for another rank or scale (lora_alpha)";
  out.fix = "learning_rate: " + format::number(step.fitting_rate());
  out.cost = step.is_low() ? "a run without progress" : "loss that rises after the warm-up";
  return out;
}

StepCause cause_of_step(const train::RunView& run, bool small) {
  const StepSize step = step_of(run);
  if (!run.adapter->is_full() && step.odd_size() && (step.lora.worth() < 1) == small)
    return {.cause = "suspected: " + size_text(step) + " is " + (small ? "a small" : "a large") + " scale",
            .fix = size_fix(step)};
  if (small)
    return {.cause = "suspected: a rate for full fine-tuning; LoRA takes about 10 times that",
            .fix = "raise learning_rate"};
  return {.cause = "suspected: the rate is too high for this rank and scale", .fix = "lower learning_rate"};
}

}  // namespace hone::doctor
