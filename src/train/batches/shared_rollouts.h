// Generation batches that several ranks make: each samples and scores its prompts, and every rank gets the whole batch. Advantages,
// denominators, metrics and what is written are then computed as by one process.
//
// A completion is keyed by its prompt's place in the whole batch, so it does not matter who samples it. A reward function sees the
// completions of its own rank's prompts, as in TRL: one that compares completions of several prompts gives other scores there.
#pragma once

#include <string>
#include <vector>

#include "parallel/bins.h"
#include "parallel/ranks.h"
#include "train/batches/rollout_source.h"

namespace hone::train {

class SharedRollouts final : public RolloutSource {
 public:
  // Both must outlive it. `own` has parts.
  SharedRollouts(RolloutSource& own, parallel::Ranks& ranks) : own_(own), ranks_(ranks) {}

  const std::vector<std::string>& reward_names() const override { return own_.reward_names(); }
  SourcedRollouts make(const RolloutRequest& request) override;

 private:
  std::string make_own(const RolloutRequest& request, const parallel::BinnedWork& work);

  RolloutSource& own_;
  parallel::Ranks& ranks_;
};

}  // namespace hone::train
