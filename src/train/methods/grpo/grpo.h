// GRPO: TRL 1.16's GRPOTrainer. What it shares with RLOO is train/steps/group_method.h.
#pragma once

#include "train/methods/methods.h"
#include "train/opening/group_opening.h"

namespace hone::train::grpo {

extern const SamplingOpening kOpening;
MethodOpening row();

}  // namespace hone::train::grpo
