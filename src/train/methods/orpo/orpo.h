// ORPO: TRL 1.16's experimental ORPOTrainer on concatenated pairs, without padding. There is no reference. A
// micro-batch is one pass through the model: each pair's prompt once, then its two completions
// (train/passes/policy_batch.h). The head also scores the tokens of the chosen sequences' prompts, which the NLL has.
#pragma once

#include "train/methods/methods.h"

namespace hone::train::orpo {

MethodOpening row();

}  // namespace hone::train::orpo
