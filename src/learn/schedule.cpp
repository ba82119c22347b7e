#include "learn/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hone::learn {
namespace {

double ramp(std::int64_t step, std::int64_t warmup) {
  return static_cast<double>(step) / static_cast<double>(std::max<std::int64_t>(1, warmup));
}

// The order of operations is transformers', so that the factor is the same double.
double after_warmup(const ScheduleSpec& spec, std::int64_t step) {
  const auto span = static_cast<double>(std::max<std::int64_t>(1, spec.total_steps - spec.warmup_steps));
  if (spec.type == Scheduler::kLinear) {
    return std::max(0.0, static_cast<double>(spec.total_steps - step) / span);
  }
  if (spec.type == Scheduler::kCosine) {
    const double progress = static_cast<double>(step - spec.warmup_steps) / span;
    return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * spec.num_cycles * 2.0 * progress)));
  }
  return 1.0;  // constant_with_warmup
}

}  // namespace

double schedule_factor(const ScheduleSpec& spec, std::int64_t step) {
  if (spec.type == Scheduler::kConstant) return 1.0;  // transformers ignores warm-up here
  return step < spec.warmup_steps ? ramp(step, spec.warmup_steps) : after_warmup(spec, step);
}

std::int64_t resolve_warmup(double warmup_steps, std::int64_t total_steps) {
  if (warmup_steps >= 1) return static_cast<std::int64_t>(warmup_steps);
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(total_steps) * warmup_steps));
}

}  // namespace hone::learn
