// NUM-08 and NUM-09: the learning rate, and what the schedule makes of it.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "learn/schedule.h"
#include "train/methods/methods.h"
#include "train/optimizer.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr std::int64_t kFewSteps = 20;
constexpr double kLongWarmup = 0.5;
constexpr double kNearlyNoRate =
    0.1;  // of learning_rate: a run whose steps stay below it does not do what was asked

learn::ScheduleSpec spec_of(const train::OpenedRun& run) {
  return train::schedule_spec(run.plan, run.start.total_steps);
}

std::string arithmetic(const train::OpenedRun& run) {
  const config::Plan& plan = run.plan;
  const train::StartFacts& start = run.start;
  if (plan.dataset_streaming) {
    return "streamed rows, " + std::to_string(plan.per_device_train_batch_size) + " x " +
           std::to_string(plan.accumulation()) + " a step";
  }
  std::string out = format::counted(start.train_rows, run.samples() ? "prompt" : "row");
  out += ", " + format::counted(start.steps_per_epoch, "step") + " an epoch (";
  if (run.samples()) out += std::to_string(plan.policy.num_generations) + " completions a prompt, ";
  out += std::to_string(plan.per_device_train_batch_size) + " x " + std::to_string(plan.accumulation()) +
         " a step)";
  return out;
}

// "learning rate 0 at 0 %, ..."; the first step's, and those after a tenth, half and all of the run.
std::string rates_over_run(const train::OpenedRun& run) {
  const learn::ScheduleSpec spec = spec_of(run);
  const std::int64_t last = spec.total_steps - 1;
  std::string out = "learning rate";
  if (learn::follows_metric(spec.type))
    return out + " " + format::number(run.plan.learning_rate) + ", then by the evaluation's loss";
  for (const int share : {0, 10, 50, 100}) {
    const std::int64_t step = last * share / 100;
    const double rate = run.plan.learning_rate * learn::schedule_factor(spec, step);
    out += (share == 0 ? " " : ", ") + format::number(rate) + " at " + std::to_string(share) + " %";
  }
  return out;
}

double highest_factor(const learn::ScheduleSpec& spec) {
  double out = 0;
  const std::int64_t stride = std::max<std::int64_t>(1, spec.total_steps / 1000);
  for (std::int64_t step = 0; step < spec.total_steps; step += stride)
    out = std::max(out, learn::schedule_factor(spec, step));
  out = std::max(out, learn::schedule_factor(
                          spec, spec.total_steps - 1));  // where a warm-up that does not end is highest
  if (spec.warmup_steps < spec.total_steps)
    out = std::max(out, learn::schedule_factor(spec, spec.warmup_steps));
  return out;
}

// Adagrad, SGD and Lion take other rates, and nothing is recorded of them.
bool like_adam(const config::OptimizerPlan& plan) {
  using Kind = learn::OptimizerKind;
  return plan.optim == Kind::kAdamW || plan.optim == Kind::kAdamW8bit || plan.optim == Kind::kAdafactor ||
         plan.optim == Kind::kRmsprop;
}

// The rates of adapters are those of LoRA of rank 16 and scale 2; a tenth of them for the whole model.
Verdict check_full_rate(const train::OpenedRun& run) {
  constexpr double kOfAdapters = 0.1;
  const train::LearningRates& rates = train::method_row(run.plan.method).rates;
  const double usual =
      kOfAdapters * rates.usual * (run.start.trained.base_parameters > 1'000'000'000 ? 0.5 : 1);
  const double rate = run.plan.learning_rate;
  const std::string at = "learning_rate " + format::number(rate) + " for the whole model";
  Verdict out{.code = "NUM-08", .what = at};
  if (rate == 0) return out;  // NUM-09's
  const bool low = rate<kOfAdapters * rates.least, high = rate> kOfAdapters * rates.most;
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

  double worth() const { return scale / 2 * std::sqrt(static_cast<double>(rank) / 16); }
};

// The largest of the run: experts have a rank of their own (adapters/expert_targets.h), and so has what a pattern names.
LoraSize largest_size(const train::OpenedRun& run) {
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

}  // namespace

Verdict check_rate(const train::OpenedRun& run) {
  if (run.adapter->is_full()) return check_full_rate(run);
  const config::Plan& plan = run.plan;
  const LoraSize lora = largest_size(run);
  // Sources: TRL#2872 (5e-7 does not learn in GRPO), Tinker (adapters take ten times what full fine-tuning
  // does), our own runs (examples/, docs/log.md).
  const train::LearningRates& rates = train::method_row(plan.method).rates;
  const double worth = lora.worth();
  const double effective = plan.learning_rate * worth;
  // Larger models take smaller steps.
  const double usual = rates.usual * (run.start.trained.base_parameters > 1'000'000'000 ? 0.5 : 1);
  const std::string at = "learning_rate " + format::number(plan.learning_rate) + " with LoRA of rank " +
                         std::to_string(lora.rank) + " and scale " + format::number(lora.scale) + lora.of;
  Verdict out{.code = "NUM-08", .what = at};
  if (plan.learning_rate == 0) return out;  // NUM-09's
  if (!like_adam(plan)) return out;
  if (effective < rates.least) {
    out.level = Level::kWarn;
    out.what = at + " is too low";
    out.evidence = "worth " + format::number(effective) +
                   " at rank 16 and scale 2; usual with adapters is about " + format::number(usual) +
                   ", the lowest that was seen to learn " + format::number(rates.least);
    out.cause =
        "suspected: a rate for full fine-tuning (TRL's defaults do not change with use_peft); adapters take "
        "about ten times as much";
    out.fix = "learning_rate: " + format::number(usual / worth);
    out.cost = "a run without progress";
  } else if (effective > rates.most) {
    out.level = Level::kWarn;
    out.what = at + " is too high for most runs";
    out.evidence = "worth " + format::number(effective) +
                   " at rank 16 and scale 2; usual with adapters is about " + format::number(usual) +
                   ", rarely above " + format::number(rates.most);
    out.cause = "suspected: a rate for another rank or scale (lora_alpha)";
    out.fix = "learning_rate: " + format::number(usual / worth);
    out.cost = "loss that rises after the warm-up";
  }
  return out;
}

Verdict check_schedule(const train::OpenedRun& run) {
  const train::StartFacts& start = run.start;
  const std::int64_t total = start.total_steps, warmup = start.warmup_steps;
  const bool few = total < kFewSteps;
  const bool asked_few = few && run.plan.max_steps > 0;  // a trial run
  Verdict out{.code = "NUM-09"};
  out.what = format::counted(total, "optimizer step") + ", " + format::number(static_cast<double>(warmup)) +
             " of warm-up";
  out.evidence = arithmetic(run);
  if (total <= 0) {
    out.level = Level::kFail;
    out.what = "not one optimizer step";
    out.fix = "raise num_train_epochs or max_steps";
    return out;
  }
  out.evidence += "; " + rates_over_run(run);
  if (run.plan.learning_rate * highest_factor(spec_of(run)) == 0) {
    out.level = asked_few && run.plan.learning_rate > 0 ? Level::kWarn : Level::kFail;
    out.what = "the learning rate is 0 in every step: nothing moves";
    out.cause = run.plan.learning_rate == 0 ? "learning_rate is 0"
                                            : "the warm-up starts at 0, and the run ends before it is over";
    out.fix = run.plan.learning_rate == 0
                  ? "learning_rate: " + format::number(train::method_row(run.plan.method).rates.usual)
                  : "warmup_steps: 0";
    out.cost = "the whole run";
    return out;
  }
  if (start.first_step >= total) {
    out.level = Level::kWarn;
    out.what = "nothing is left to do: the checkpoint is from step " + std::to_string(start.first_step) +
               " of " + std::to_string(total);
    out.fix = "raise max_steps or num_train_epochs";
    return out;
  }
  const config::Scheduler type = run.plan.lr_scheduler_type;
  const bool warms_up = type != config::Scheduler::kConstant && !learn::follows_metric(type);
  const std::int64_t tenth = (total + 9) / 10;  // as `warmup_steps: 0.1` is rounded
  if (warms_up && warmup > tenth && static_cast<double>(warmup) >= kLongWarmup * static_cast<double>(total)) {
    // TRL trains such a run, with less than was meant: it is stopped only where nearly no step has a rate.
    const double highest = highest_factor(spec_of(run));
    const bool nothing = highest < kNearlyNoRate;
    out.level = nothing && !asked_few ? Level::kFail : Level::kWarn;
    out.what =
        warmup < total
            ? std::to_string(warmup) + " of " + format::counted(total, "optimizer step") + " are warm-up"
            : format::counted(warmup, "step") + " of warm-up for " + format::counted(total, "optimizer step");
    out.cause = nothing ? "no step has a tenth of learning_rate: the highest is " +
                              format::number(run.plan.learning_rate * highest)
                : warmup >= total ? "the learning rate never reaches its peak"
                                  : "half of the run is below the peak rate";
    out.cost = nothing ? "the whole run" : "a run that learns less than its number of steps suggests";
    out.fix = "warmup_steps: 0.1  (a tenth of the run)";
    return out;
  }
  if (few) {
    out.level = asked_few ? Level::kNote : Level::kWarn;
    out.what = "only " + format::counted(total, "optimizer step") + " in all";
    if (!asked_few) {
      out.cause = "few rows for this batch size: each step uses " +
                  std::to_string(run.plan.per_device_train_batch_size * run.plan.accumulation()) +
                  (run.samples() ? " completions" : " rows");
      out.fix = "lower gradient_accumulation_steps or per_device_train_batch_size, or raise num_train_epochs";
    } else {
      out.cause = "max_steps: this is a test run";
    }
  }
  return out;
}

}  // namespace hone::doctor
