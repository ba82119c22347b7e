// ORPO: TRL 1.16's experimental ORPOTrainer on concatenated pairs, without padding. There is no reference. A
// micro-batch is one pass through the model: each pair's prompt once, then its two completions
// (train/policy_batch.h). The head also scores the tokens of the chosen sequences' prompts, which the NLL has.
#pragma once

#include "learn/orpo_loss.h"
#include "train/methods/methods.h"
#include "train/pair_method.h"

namespace hone::train::orpo {

class Orpo final : public PairMethod {
 public:
  explicit Orpo(PairParts parts);

 private:
  BatchLoss run_pairs(const PairBatch& batch) const override;

  ExtraScores extra_;
};

MethodRow row();

}  // namespace hone::train::orpo
