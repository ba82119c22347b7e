// lr_scheduler_kwargs -> learn::ScheduleKwargs: which keys a schedule has, their values, and what a schedule
// needs besides them.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// Fills plan.lr_scheduler_kwargs; plan.lr_scheduler_type and learning_rate are filled already. UserError for a
// key that the schedule does not have, a value that it cannot take, a key that it needs, and a schedule that
// follows the evaluation in a run that has none. Notes for what has no effect.
void read_schedule_kwargs(OptimizerPlan& plan, const Settings& settings, std::vector<std::string>& notes);

}  // namespace hone::config
