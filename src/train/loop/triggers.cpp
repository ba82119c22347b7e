#include "train/loop/triggers.h"

#include <algorithm>
#include <cmath>

namespace hone::train {

using config::IntervalStrategy;
using config::Plan;

namespace {

std::int64_t interval(double value, std::int64_t total_steps) {
  const double steps = value < 1 ? std::ceil(value * static_cast<double>(total_steps)) : value;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(steps));
}

bool due(IntervalStrategy every, std::int64_t interval_steps, std::int64_t step, bool epoch_ends) {
  switch (every) {
    case IntervalStrategy::kNo:
    case IntervalStrategy::kBest:  // after an evaluation
      return false;
    case IntervalStrategy::kSteps:
      return step % interval_steps == 0;
    case IntervalStrategy::kEpoch:
      return epoch_ends;
  }
  return false;
}

}  // namespace

Intervals resolve_intervals(const Plan& plan, std::int64_t total_steps) {
  Intervals out;
  out.logging = interval(plan.logging_steps, total_steps);
  out.eval = interval(plan.eval_steps > 0 ? plan.eval_steps : plan.logging_steps, total_steps);
  out.save = interval(plan.save_steps, total_steps);
  return out;
}

Actions actions_after(const Plan& plan, const Intervals& intervals, std::int64_t step,
                      std::int64_t total_steps, bool epoch_ends, double epoch) {
  const bool last = step >= total_steps;
  Actions out;
  out.log = due(plan.logging_strategy, intervals.logging, step, epoch_ends) ||
            (step == 1 && plan.logging_first_step) ||
            (last && plan.logging_strategy == IntervalStrategy::kEpoch);
  const double reached = plan.eval_strategy == IntervalStrategy::kEpoch ? epoch : static_cast<double>(step);
  out.evaluate = plan.eval_delay <= reached && (due(plan.eval_strategy, intervals.eval, step, epoch_ends) ||
                                                (last && plan.eval_strategy != IntervalStrategy::kNo));
  out.save =
      due(plan.save_strategy, intervals.save, step, epoch_ends) ||
      (last && plan.save_strategy != IntervalStrategy::kNo && plan.save_strategy != IntervalStrategy::kBest);
  return out;
}

}  // namespace hone::train
