// Learning rates: every lr_scheduler_type of transformers 5.23 (transformers.optimization). Most are a factor
// on the peak, as a function of the step about to be taken; two follow a metric (plateau.h).
#pragma once

#include <cstdint>
#include <optional>

#include "learn/plateau.h"

namespace hone::learn {

enum class Scheduler {  // lr_scheduler_type
  kLinear,
  kCosine,
  kCosineWithRestarts,
  kPolynomial,
  kConstant,
  kConstantWithWarmup,
  kInverseSqrt,
  kReduceLrOnPlateau,
  kCosineWithMinLr,
  kCosineWarmupWithMinLr,
  kWarmupStableDecay,
  kGreedy
};

// The rate follows the evaluation: a PlateauState has it, not schedule_factor.
constexpr bool follows_metric(Scheduler type) {
  return type == Scheduler::kReduceLrOnPlateau || type == Scheduler::kGreedy;
}

enum class RampForm { kLinear, kCosine, kOneMinusSqrt };  // warmup_type, decay_type

// lr_scheduler_kwargs, with transformers' names; each schedule reads its own.
struct ScheduleKwargs {
  std::optional<double> num_cycles;  // cosines: 0.5; cosine_with_restarts: 1
  double lr_end = 1e-7, power = 1;   // polynomial
  std::optional<double> timescale;   // inverse_sqrt: the steps of the warm-up, or 10000 without one
  std::optional<double> min_lr;      // cosine_with_min_lr, cosine_warmup_with_min_lr: one of these two
  std::optional<double> min_lr_rate;
  std::optional<double> warmup_lr_rate;          // cosine_warmup_with_min_lr
  std::int64_t num_decay_steps = 0;              // warmup_stable_decay, to the end
  std::optional<std::int64_t> num_stable_steps;  // what the other two leave
  RampForm warmup_type = RampForm::kLinear, decay_type = RampForm::kCosine;
  double min_lr_ratio = 0;
  PlateauOptions plateau;  // reduce_lr_on_plateau, greedy

  bool operator==(const ScheduleKwargs&) const = default;
};

struct ScheduleSpec {
  Scheduler type = Scheduler::kLinear;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;
  double learning_rate = 0;  // the peak; only kwargs that are rates themselves are divided by it
  ScheduleKwargs kwargs;
};

// The factor on the peak learning rate for optimizer step `step` (0-based: the first step uses 0, so a run
// with warm-up begins with learning rate 0, as LambdaLR does). 1 for schedules that follow a metric.
double schedule_factor(const ScheduleSpec& spec, std::int64_t step);

// warmup_steps as TRL reads it: >= 1 steps, < 1 a fraction of all steps (ceil).
std::int64_t resolve_warmup(double warmup_steps, std::int64_t total_steps);

}  // namespace hone::learn
