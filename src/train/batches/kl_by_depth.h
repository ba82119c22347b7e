// Says where in the completions of a generation batch the policy differs from its reference.
#pragma once

#include <span>

#include "train/batches/rollout_batch.h"
#include "train/facts/step_facts.h"

namespace hone::train {

// From the recorded log-probabilities of the drawn tokens: exp(r - o) - (r - o) - 1 of each, as the metric `kl`.
KlByDepth kl_by_depth(const RolloutBatch& batch);

// Adds a completion of the policy's log-probabilities and the reference's. Nothing where they are not of the
// same tokens, or of fewer than eight.
void add_completion(KlByDepth& to, std::span<const float> policy, std::span<const float> reference);

}  // namespace hone::train
