// What the training commands share behind their plan: open, examine, train.
#pragma once

#include "config/plan.h"
#include "train/step_facts.h"

namespace hone::commands {

// The doctor's watch found a fault (on_fault: pause): the run can be resumed, or has ended with it.
constexpr int kPaused = 3;

// Returns the exit code: 0, kInterrupted or kPaused. UserError when the examination fails, or for on_fault:
// stop.
int train_run(const config::Plan& plan, train::RunListener& listener);

}  // namespace hone::commands
