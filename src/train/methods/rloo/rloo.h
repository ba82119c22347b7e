// RLOO: TRL 1.16's RLOOTrainer. What it shares with GRPO is train/steps/group_method.h.
#pragma once

#include "train/methods/methods.h"

namespace hone::train::rloo {

MethodOpening row();

}  // namespace hone::train::rloo
