// KTO: TRL 1.16's KTOTrainer on concatenated rows, without padding.
//
// A micro-batch of loss type kto is two passes with the adapter, the second of which trains: prompts with
// another row's completion, whose log-probabilities estimate the KL, and prompts with their own. The
// reference is the model without its adapter, or with the initial values of a continued adapter; it takes
// both completions of a prompt in one pass that computes the prompt once, with each micro-batch or, with
// precompute_ref_log_probs, of all rows before step 1.
#pragma once

#include "learn/kto_loss.h"
#include "train/methods/methods.h"
#include "train/steps/pair_method.h"

namespace hone::train::kto {

class Kto final : public PairMethod {
 public:
  explicit Kto(RecordParts parts);

 private:
  BatchLoss run_pairs(const PairBatch& batch) const override;
  // `second`: of the exchanged completions; empty where no KL is estimated.
  PairReference score_reference(const std::vector<data::RecordView>& records) const override;
  bool compares_sides() const override { return false; }
  double mean_kl(const PairBatch& batch, const PairReference& reference) const;
  bool estimates() const { return options_.type == learn::KtoLossType::kKto; }

  learn::KtoLossOptions options_;
  HeadOptions head_;
};

MethodOpening row();

}  // namespace hone::train::kto
