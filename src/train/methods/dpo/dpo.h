// DPO and its relatives: TRL 1.16's DPOTrainer on concatenated pairs, without padding.
//
// A micro-batch is one pass through the model: each pair's prompt once, then its two completions
// (train/passes/policy_batch.h). The reference is the model without its adapter, or with the initial values of a
// continued adapter; its log-probabilities are computed with each micro-batch, or, with
// precompute_ref_log_probs, of all rows before step 1. Dropout, where disable_dropout is false, is the
// policy's alone, and of a shared prompt both completions see the same.
#pragma once

#include "learn/preference_loss.h"
#include "train/methods/methods.h"
#include "train/steps/pair_method.h"

namespace hone::train::dpo {

class Dpo final : public PairMethod {
 public:
  explicit Dpo(RecordParts parts);

 private:
  BatchLoss run_pairs(const PairBatch& batch) const override;
  PairReference score_reference(const std::vector<data::RecordView>& records) const override;

  learn::PreferenceLossOptions options_;
  HeadOptions head_;
};

MethodOpening row();

}  // namespace hone::train::dpo
