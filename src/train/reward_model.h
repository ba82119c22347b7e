// Reward-model training: TRL 1.16's RewardTrainer on pairs laid end to end, without padding.
//
// A micro-batch is one pass through the decoder: what the two of a pair begin with once (share_prompt), then
// the rest of each. A score is score.weight times the final norm's output at a sequence's last token; both
// the adapter and the head (CausalLm::score_head) are trained. The step's loss is the mean over its
// micro-batches, as transformers takes it; metrics are each micro-batch's. Scores and the head are fp32
// whatever the decoder's precision is.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <optional>
#include <vector>

#include "config/plan.h"
#include "data/order.h"
#include "data/reward_pairs.h"
#include "learn/reward_loss.h"
#include "model/causal_lm.h"
#include "train/loop.h"
#include "train/scored_pass.h"

namespace hone::train {

// Pairs laid out for one pass: sequences chosen 0, rejected 0, chosen 1, ...
struct RewardPass {
  data::Batch batch;               // labels stay empty; Segment::row keys the dropout
  std::vector<std::int64_t> last;  // [2B] the token of the batch that has the sequence's score
  std::int64_t tokens = 0;         // of both sequences of every pair, as TRL counts them
};
// Segment::row is row_base + the sequence's number, of a shared beginning chosen's.
RewardPass make_reward_pass(const std::vector<data::PreferencePair>& pairs,
                            const std::vector<std::int64_t>& rows, bool share_prompt,
                            std::int64_t row_base = 0);

// Scores of a pass's sequences, [2B] fp32, by the model's score_head(); forward only.
at::Tensor score_rewards(const model::CausalLm& model, const RewardPass& pass, const PassKey& key,
                         const PassForm& form);

struct RewardModelParts {
  const config::Plan& plan;
  const model::CausalLm& model;  // with an adapter that has a score head
  data::RewardPairs train;
  std::optional<data::RewardPairs> eval;
  PassForm form;
};

class RewardModelMethod final : public Method {
 public:
  explicit RewardModelMethod(RewardModelParts parts);

  StepLoss backward(std::int64_t step) override;
  bool has_evaluation() const override { return parts_.eval.has_value(); }
  EvalFacts evaluate() override;
  std::int64_t steps_per_epoch() const override { return order_.steps_per_epoch(); }
  std::int64_t total_steps() const override { return total_steps_; }
  double epoch_after(std::int64_t step) const override;
  // One pair whose two sides differ, cut to what is asked for. nll is the loss of the choice, and `scored`
  // the two scores. With adapters_on false the head stays: it has no base.
  Rehearsal rehearse(const RehearsalRequest& request) override;
  void replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) override;
  const std::vector<data::PreferencePair>& train_pairs() const { return parts_.train.pairs; }

 private:
  using Pairs = std::vector<data::PreferencePair>;
  PassKey training_key(std::int64_t step) const;
  // Adds `share` of the pass's gradients to the adapter's.
  learn::RewardGradient train_pass(const RewardPass& pass, const PassKey& key,
                                   const std::vector<double>& margins, double share);
  learn::RewardGradient loss_of(const at::Tensor& scores, const std::vector<double>& margins) const;
  bool shares() const { return parts_.form.is_explicit && parts_.plan.reward.share_prompt; }

  RewardModelParts parts_;
  data::Order order_;
  std::int64_t total_steps_ = 0;
};

// open_reward_model and begin_run: read, check, attach, announce, train, save. Throws UserError before
// anything is written when the input is at fault.
LoopResult run_reward_model(const config::Plan& plan, RunListener& listener,
                            const std::atomic<bool>& stop_requested);

}  // namespace hone::train
