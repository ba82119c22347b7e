// Learning-rate factors, transformers.optimization (5.23), as functions of the step about to be taken.
#pragma once

#include <cstdint>

namespace hone::learn {

enum class Scheduler { kLinear, kCosine, kConstant, kConstantWithWarmup };  // lr_scheduler_type

struct ScheduleSpec {
  Scheduler type = Scheduler::kLinear;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;
  double num_cycles = 0.5;  // cosine
};

// The factor on the peak learning rate for optimizer step `step` (0-based: the first step uses 0, so a run
// with warm-up begins with learning rate 0, as LambdaLR does).
double schedule_factor(const ScheduleSpec& spec, std::int64_t step);

// warmup_steps as TRL reads it: >= 1 steps, < 1 a fraction of all steps (ceil).
std::int64_t resolve_warmup(double warmup_steps, std::int64_t total_steps);

}  // namespace hone::learn
