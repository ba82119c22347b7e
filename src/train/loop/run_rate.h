// The learning rate of each step: the schedule's, or what the metric of the evaluations makes of it.
#pragma once

#include <cstdint>
#include <vector>

#include "config/plan.h"
#include "learn/schedule.h"
#include "train/saves/run_state.h"

namespace hone::train {

class RunRate {
 public:
  // Begins RunState::plateau where the schedule follows a metric; a resumed run has it, unless learning_rate changed.
  // Both must outlive it.
  RunRate(const config::Plan& plan, RunState& state, std::int64_t total_steps);

  double of_step(std::int64_t index) const;  // 0-based
  // What an evaluation's metric decides: the rate of a schedule that follows it, and which step is the best so
  // far. Returns whether this step is. UserError when metric_for_best_model is not among them.
  bool follow(const std::vector<NamedValue>& metrics);

 private:
  const config::Plan& plan_;
  RunState& state_;
  learn::ScheduleSpec schedule_;
};

}  // namespace hone::train
