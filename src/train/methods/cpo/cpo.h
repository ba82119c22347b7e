// CPO, SimPO and AlphaPO: TRL 1.16's experimental CPOTrainer on concatenated pairs, without padding. There is
// no reference. A micro-batch is one pass through the model: each pair's prompt once, then its two completions
// (train/passes/policy_batch.h).
#pragma once

#include "train/methods/methods.h"

namespace hone::train::cpo {

MethodOpening row();

}  // namespace hone::train::cpo
