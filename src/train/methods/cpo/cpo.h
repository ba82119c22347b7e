// CPO, SimPO and AlphaPO: TRL 1.16's experimental CPOTrainer on concatenated pairs, without padding. There is
// no reference. A micro-batch is one pass through the model: each pair's prompt once, then its two completions
// (train/policy_batch.h).
#pragma once

#include "learn/cpo_loss.h"
#include "train/methods/methods.h"
#include "train/pair_method.h"

namespace hone::train::cpo {

class Cpo final : public PairMethod {
 public:
  explicit Cpo(PairParts parts);

 private:
  BatchLoss run_pairs(const PairBatch& batch) const override;

  learn::CpoLossOptions options_;
  ExtraScores extra_;
};

MethodRow row();

}  // namespace hone::train::cpo
