// Supervised fine-tuning: TRL 1.16's SFTTrainer on packed rows. Loss: the sum over scored tokens / N with N those of
// the whole optimizer step (learn/sft_loss.h).
#pragma once

#include <functional>

#include "train/methods/methods.h"
#include "train/passes/scored_pass.h"
#include "train/steps/row_method.h"

namespace hone::train::sft {

class Sft final : public RowMethod {
 public:
  explicit Sft(RecordParts parts);

  // One micro-batch of the run's own rows, short enough to cost a second.
  Rehearsal rehearse(const RehearsalRequest& request) override;
  void replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) override;

 private:
  BatchLoss run(const MicroBatch& batch) override;
  Denominators denominators(const data::StepRows& micro_batches) const override;
  ScoredFacts run_batch(const data::Batch& batch, RngKey key, bool backward, double denominator,
                        double balance) const;
  double noise_bound(const data::Batch& batch) const;

  ScoredLoss loss_;
};

MethodOpening row();

}  // namespace hone::train::sft
