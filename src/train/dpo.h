// DPO and its relatives: TRL 1.16's DPOTrainer on pairs laid end to end, without padding.
//
// A micro-batch is one pass through the model: each pair's prompt once, then its two completions
// (train/policy_batch.h). The step's loss is the mean over its micro-batches, as transformers takes it;
// metrics are each micro-batch's. The reference is the model without its adapter, or with the values that a
// continued adapter began with; its log-probabilities are computed with each micro-batch, or, with
// precompute_ref_log_probs, of all rows before step 1. Dropout, where disable_dropout is false, is the
// policy's alone, and of a shared prompt both completions see the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <optional>
#include <vector>

#include "config/plan.h"
#include "data/order.h"
#include "data/preferences.h"
#include "learn/preference_loss.h"
#include "model/causal_lm.h"
#include "train/loop.h"
#include "train/pair_pass.h"
#include "train/policy_pass.h"

namespace hone::train {

struct DpoParts {
  const config::Plan& plan;
  const model::CausalLm& model;
  std::vector<data::PreferencePair> train;
  std::optional<std::vector<data::PreferencePair>> eval;
  PassForm form;
  // The values [P] that a continued adapter began with, which take the place of `parameters`
  // (Adapter::flat()) for the reference. Undefined: the base alone.
  at::Tensor parameters, reference = {};
};

class DpoMethod final : public Method {
 public:
  explicit DpoMethod(DpoParts parts);

  StepLoss backward(std::int64_t step) override;
  bool has_evaluation() const override { return parts_.eval.has_value(); }
  EvalFacts evaluate() override;
  std::int64_t steps_per_epoch() const override { return order_.steps_per_epoch(); }
  std::int64_t total_steps() const override { return total_steps_; }
  double epoch_after(std::int64_t step) const override;
  // One pair whose two sides differ, cut to what is asked for, through the run's own loss.
  Rehearsal rehearse(const RehearsalRequest& request) override;
  void replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) override;
  const std::vector<data::PreferencePair>& pairs() const { return parts_.train; }

 private:
  using Pairs = std::vector<data::PreferencePair>;
  struct Reference {
    std::vector<double> chosen, rejected;  // a row each: sums as the loss takes them
  };

  std::vector<double> score_reference(const PolicyPass& pass, const std::vector<std::int64_t>& scored) const;
  at::Tensor reference_of(const Reference& known, const PolicyPass& pass,
                          const std::vector<std::int64_t>& rows,
                          const std::vector<std::int64_t>& scored) const;
  Reference precompute(const Pairs& pairs, std::int64_t batch_size) const;
  void precompute_all();
  PassKey training_key(std::int64_t step) const;
  learn::PreferenceGradient train_pairs(const PairPass& one, const std::vector<std::int64_t>& rows,
                                        const PassKey& key, double share) const;
  bool shares() const { return parts_.form.is_explicit && parts_.plan.preference.share_prompt; }

  DpoParts parts_;
  data::Order order_;
  std::int64_t total_steps_ = 0;
  learn::PreferenceLossOptions options_;
  ExtraScores extra_;
  Reference train_reference_, eval_reference_;  // empty: computed with each micro-batch
};

// TRL's words as the loss takes them.
learn::PreferenceLossOptions preference_loss_options(const config::PreferencePlan& plan);

// open_dpo and begin_run: read, check, attach, announce, train, save. Throws UserError before anything is
// written when the input is at fault.
LoopResult run_dpo(const config::Plan& plan, RunListener& listener, const std::atomic<bool>& stop_requested);

}  // namespace hone::train
