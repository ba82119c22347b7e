// GRPO: TRL 1.16's GRPOTrainer. What it shares with RLOO is train/group_method.h.
#pragma once

#include "train/group_opening.h"
#include "train/methods/methods.h"

namespace hone::train::grpo {

extern const SamplingOpening kOpening;
MethodOpening row();

}  // namespace hone::train::grpo
