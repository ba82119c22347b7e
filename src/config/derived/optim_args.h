// optim and optim_args -> learn::OptimizerArguments: "momentum=0.9,nesterov=True", as transformers reads it.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// Fills plan.optim_args; plan.optim is filled already. UserError for text that is no list of key=value and for a
// value that the optimizer cannot take. Notes for what has no effect, in TRL either: keys that the optimizer does
// not read, adam_* without Adam, and paging.
void read_optim_args(OptimizerPlan& plan, const Settings& settings, std::vector<std::string>& notes);

}  // namespace hone::config
