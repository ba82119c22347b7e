// The user's function that makes a run's completions (train/batches/function_rollouts.h), opened before its prompts.
#pragma once

#include <memory>

#include "train/batches/function_rollouts.h"
#include "train/opening/open_run.h"

namespace hone::train {

// Starts its process. UserError of tools::RolloutHost. `run` must outlive the result.
std::shared_ptr<FunctionUse> open_function(const OpenedRun& run);

}  // namespace hone::train
