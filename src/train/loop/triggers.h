// When a run logs, evaluates and saves: transformers' DefaultFlowCallback (5.23) as a function of the step.
#pragma once

#include <cstdint>

#include "config/plan.h"

namespace hone::train {

// The step intervals after shares (< 1) are resolved against the total, as TrainerState.compute_steps does
// (ceil).
struct Intervals {
  std::int64_t logging = 0, eval = 0, save = 0;
};
Intervals resolve_intervals(const config::Plan& plan, std::int64_t total_steps);

struct Actions {
  bool log = false, evaluate = false, save = false;
};

// After optimizer step `step` (1-based). `epoch_ends`: this was the last step of an epoch; `epoch`: fractional.
Actions actions_after(const config::Plan& plan, const Intervals& intervals, std::int64_t step,
                      std::int64_t total_steps, bool epoch_ends, double epoch);

}  // namespace hone::train
