// Dynamic sampling, as verl's filter_groups: groups of a generation batch whose rewards are all equal have no gradient, and are
// replaced by those of further prompts.
//
// The rows of a refill are drawn without repetition among those that the batch has not had yet, keyed by the seed and the
// batch: a resumed run draws the same ones, and nothing of it is in a checkpoint. The order of the epoch's own rows does not change.
// A refill has as many prompts as fill the batch at the share of live groups so far, at most those of a batch. Groups are taken in
// the order in which they were asked for. What the last refill leaves open is filled with groups of the batch that are dead.
//
// verl takes whole batches of the epoch's next rows, and ends the run where the bound is reached.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/plan.h"
#include "train/batches/rollout_source.h"

namespace hone::train {

// Samples `request`, and refills, of `prompts` rows of the data. Its metrics have in addition filtered_groups, the share of the
// sampled groups that are not in the batch, and num_gen_batches, how often was sampled.
SourcedRollouts sample_live_groups(RolloutSource& source, const RolloutRequest& request,
                                   const config::PolicyPlan& policy, std::uint64_t seed,
                                   std::int64_t prompts);

}  // namespace hone::train
