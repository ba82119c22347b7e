// NUM-09: what the schedule makes of the learning rate.
#include <algorithm>
#include <cmath>
#include <string>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "learn/schedule.h"
#include "train/loop/optimizer.h"
#include "train/methods/methods.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr std::int64_t kFewSteps = 20;
constexpr double kLongWarmup = 0.5;
constexpr double kNearlyNoRate =
    0.1;  // of learning_rate: a run whose steps stay below it does not do what was asked

constexpr double kNoRate = 1e-3, kIdleEnd = 0.1;  // of learning_rate; of the steps

learn::ScheduleSpec spec_of(const train::RunView& run) {
  return train::schedule_spec(run.plan, run.start.total_steps);
}

std::string arithmetic(const train::RunView& run) {
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
std::string rates_over_run(const train::RunView& run) {
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

// The share of the run's last steps that have at most a thousandth of the peak rate.
double idle_end(const learn::ScheduleSpec& spec) {
  if (learn::follows_metric(spec.type)) return 0;
  std::int64_t step = spec.total_steps;
  while (step > spec.warmup_steps && learn::schedule_factor(spec, step - 1) <= kNoRate) --step;
  return static_cast<double>(spec.total_steps - step) / static_cast<double>(spec.total_steps);
}

// True where a tenth of the run or more has next to no rate at its end.
bool tell_idle_end(const learn::ScheduleSpec& spec, Verdict& out) {
  const double idle = idle_end(spec);
  if (idle < kIdleEnd) return false;
  out.level = Level::kWarn;
  out.what = "the last " + format::percent(idle, 1) + " of the steps have next to no learning rate";
  out.cause = "a thousandth of learning_rate or less: the schedule ends before the run does";
  out.fix = "a higher end (lr_scheduler_kwargs), another lr_scheduler_type, or fewer steps";
  out.cost = "steps that change nothing";
  return true;
}

}  // namespace

Verdict check_schedule(const train::RunView& run) {
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
                  ? "learning_rate: " + format::number(train::method_opening(run.plan.method).rates.usual)
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
  if (!few && tell_idle_end(spec_of(run), out)) return out;
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
