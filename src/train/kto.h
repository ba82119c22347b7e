// KTO: TRL 1.16's KTOTrainer on rows laid end to end, without padding.
//
// A micro-batch of loss type kto is two passes with the adapter, the second of which trains: prompts with
// another row's completion, whose log-probabilities estimate the KL, and prompts with their own. The
// reference is the model without its adapter, or with the values that a continued adapter began with; it
// takes both completions of a prompt in one pass that computes the prompt once, with each micro-batch or,
// with precompute_ref_log_probs, of all rows before step 1. The step's loss is the mean over its
// micro-batches, as transformers takes it; metrics are each micro-batch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <optional>
#include <vector>

#include "config/plan.h"
#include "data/order.h"
#include "data/unpaired.h"
#include "learn/kto_loss.h"
#include "model/causal_lm.h"
#include "train/loop.h"
#include "train/policy_pass.h"

namespace hone::train {

struct KtoParts {
  const config::Plan& plan;
  const model::CausalLm& model;
  data::UnpairedData train;
  std::optional<data::UnpairedData> eval;
  PassForm form;
  // As DpoParts: the values [P] that a continued adapter began with, and where they go.
  at::Tensor parameters, reference = {};
};

class KtoMethod final : public Method {
 public:
  explicit KtoMethod(KtoParts parts);

  StepLoss backward(std::int64_t step) override;
  bool has_evaluation() const override { return parts_.eval.has_value(); }
  EvalFacts evaluate() override;
  std::int64_t steps_per_epoch() const override { return order_.steps_per_epoch(); }
  std::int64_t total_steps() const override { return total_steps_; }
  double epoch_after(std::int64_t step) const override;
  // One row with another's completion, cut to what is asked for, through the run's own loss.
  Rehearsal rehearse(const RehearsalRequest& request) override;
  void replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) override;
  const std::vector<data::PreferencePair>& train_rows() const { return parts_.train.rows; }

 private:
  using Rows = std::vector<std::int64_t>;
  // Sums of the reference's log-probabilities, a row each; `exchanged` is empty where no KL is estimated.
  struct Reference {
    std::vector<double> own, exchanged;
  };

  at::Tensor reference_logprobs(const PolicyPass& pass) const;
  Reference score_reference(const data::UnpairedData& data, const Rows& rows) const;
  Reference precompute(const data::UnpairedData& data, std::int64_t batch_size) const;
  void precompute_all();
  Reference reference_of(const Reference& known, const data::UnpairedData& data, const Rows& rows) const;
  PassKey training_key(std::int64_t step) const;
  double mean_kl(const data::UnpairedData& data, const Rows& rows, const Reference& reference,
                 const PassKey& key, std::int64_t row_base) const;
  // The loss of a micro-batch; with `share` its gradients, times that, are added to the adapter's.
  learn::KtoGradient micro_batch(const data::UnpairedData& data, const Rows& rows, const Reference& known,
                                 const PassKey& key, std::int64_t row_base,
                                 std::optional<double> share) const;
  bool estimates() const { return options_.type == learn::KtoLossType::kKto; }

  KtoParts parts_;
  data::Order order_;
  std::int64_t total_steps_ = 0;
  learn::KtoLossOptions options_;
  ExtraScores extra_;
  Reference train_reference_, eval_reference_;  // empty: computed with each micro-batch
};

// open_kto and begin_run: read, check, attach, announce, train, save. Throws UserError before anything is
// written when the input is at fault.
LoopResult run_kto(const config::Plan& plan, RunListener& listener, const std::atomic<bool>& stop_requested);

}  // namespace hone::train
