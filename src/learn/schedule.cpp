// The order of operations is transformers', so that a factor is the same double.
#include "learn/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hone::learn {
namespace {

using std::numbers::pi;

double real(std::int64_t steps) {
  return static_cast<double>(steps);
}

double at_least_one(std::int64_t steps) {
  return real(std::max<std::int64_t>(1, steps));
}

// From 0 to 1 after the warm-up.
double progress_of(const ScheduleSpec& spec, std::int64_t step) {
  return real(step - spec.warmup_steps) / at_least_one(spec.total_steps - spec.warmup_steps);
}

double wave(double num_cycles, double progress) {
  return 0.5 * (1.0 + std::cos(pi * num_cycles * 2.0 * progress));
}

double restarts(const ScheduleSpec& spec, std::int64_t step) {
  const double progress = progress_of(spec, step);
  if (progress >= 1.0) return 0.0;
  double turn = std::fmod(spec.kwargs.num_cycles.value_or(1) * progress, 1.0);
  if (turn < 0) turn += 1.0;  // Python's %
  return std::max(0.0, 0.5 * (1.0 + std::cos(pi * turn)));
}

double polynomial(const ScheduleSpec& spec, std::int64_t step) {
  const double peak = spec.learning_rate, end = spec.kwargs.lr_end;
  const std::int64_t span = spec.total_steps - spec.warmup_steps;
  if (step > spec.total_steps || span <= 0) return end / peak;
  const double remaining = 1 - real(step - spec.warmup_steps) / real(span);
  return ((peak - end) * std::pow(remaining, spec.kwargs.power) + end) / peak;
}

double inverse_sqrt(const ScheduleSpec& spec, std::int64_t step) {
  const double scale = spec.kwargs.timescale.value_or(spec.warmup_steps > 0 ? real(spec.warmup_steps) : 1e4);
  return 1.0 / std::sqrt((real(step) + (scale - real(spec.warmup_steps))) / scale);
}

double least_rate(const ScheduleSpec& spec) {
  if (spec.kwargs.min_lr) return *spec.kwargs.min_lr / spec.learning_rate;
  return spec.kwargs.min_lr_rate.value_or(0);
}

double cosine_to(const ScheduleSpec& spec, double progress) {
  const double least = least_rate(spec);
  return std::max(0.0, wave(spec.kwargs.num_cycles.value_or(0.5), progress) * (1 - least) + least);
}

// The warm-up begins above 0, and the decay one step ahead of cosine_with_min_lr's.
double cosine_warmup_with_min_lr(const ScheduleSpec& spec, std::int64_t step) {
  const std::int64_t warmup = spec.warmup_steps;
  if (step < warmup) {
    if (!spec.kwargs.warmup_lr_rate) return real(step + 1) / at_least_one(warmup);
    const double from = *spec.kwargs.warmup_lr_rate;
    return from + (1.0 - from) * real(step) / at_least_one(warmup - 1);
  }
  return cosine_to(spec, real(step - warmup + 1) / at_least_one(spec.total_steps - warmup));
}

// `cosine`: the value of the form of that name.
double ramp_of(RampForm form, double linear, double cosine, double rooted) {
  if (form == RampForm::kLinear) return linear;
  return form == RampForm::kCosine ? cosine : 1.0 - std::sqrt(rooted);
}

double warmup_stable_decay(const ScheduleSpec& spec, std::int64_t step) {
  const ScheduleKwargs& kwargs = spec.kwargs;
  const std::int64_t warmup = spec.warmup_steps, decay = kwargs.num_decay_steps;
  const std::int64_t stable = kwargs.num_stable_steps.value_or(spec.total_steps - warmup - decay);
  const auto above_least = [&](double factor) {
    return std::max(0.0, factor * (1.0 - kwargs.min_lr_ratio) + kwargs.min_lr_ratio);
  };
  if (step < warmup) {
    const double progress = real(step) / at_least_one(warmup);
    return above_least(
        ramp_of(kwargs.warmup_type, progress, 0.5 * (1.0 - std::cos(pi * progress)), 1.0 - progress));
  }
  if (step < warmup + stable) return 1.0;
  if (step >= warmup + stable + decay) return kwargs.min_lr_ratio;
  const double progress = real(step - warmup - stable) / at_least_one(decay);
  return above_least(
      ramp_of(kwargs.decay_type, 1.0 - progress, wave(kwargs.num_cycles.value_or(0.5), progress), progress));
}

double after_warmup(const ScheduleSpec& spec, std::int64_t step) {
  switch (spec.type) {
    case Scheduler::kLinear:
      return std::max(0.0,
                      real(spec.total_steps - step) / at_least_one(spec.total_steps - spec.warmup_steps));
    case Scheduler::kCosine:
    case Scheduler::kCosineWithMinLr:
      return cosine_to(spec, progress_of(spec, step));
    case Scheduler::kCosineWithRestarts:
      return restarts(spec, step);
    case Scheduler::kPolynomial:
      return polynomial(spec, step);
    case Scheduler::kInverseSqrt:
      return inverse_sqrt(spec, step);
    default:
      return 1.0;  // constant_with_warmup
  }
}

}  // namespace

double schedule_factor(const ScheduleSpec& spec, std::int64_t step) {
  // transformers ignores the warm-up of these
  if (spec.type == Scheduler::kConstant || follows_metric(spec.type)) return 1.0;
  if (spec.type == Scheduler::kCosineWarmupWithMinLr) return cosine_warmup_with_min_lr(spec, step);
  if (spec.type == Scheduler::kWarmupStableDecay) return warmup_stable_decay(spec, step);
  return step < spec.warmup_steps ? real(step) / at_least_one(spec.warmup_steps) : after_warmup(spec, step);
}

std::int64_t resolve_warmup(double warmup_steps, std::int64_t total_steps) {
  if (warmup_steps >= 1) return static_cast<std::int64_t>(warmup_steps);
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(total_steps) * warmup_steps));
}

}  // namespace hone::learn
