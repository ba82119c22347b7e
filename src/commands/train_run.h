// What the training commands share behind their plan: open, examine, train.
#pragma once

#include "config/plan.h"
#include "train/step_facts.h"

namespace hone::commands {

// Returns the exit code: 0, kInterrupted, or 2 for a run that the doctor paused. UserError when the
// examination fails.
int train_run(const config::Plan& plan, train::RunListener& listener);

}  // namespace hone::commands
