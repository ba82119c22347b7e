// Online DPO: TRL 1.16's OnlineDPOTrainer (trl.experimental.online_dpo) with native rollouts.
//
// A step samples two completions of each of its prompts, all at once (the weights are the same for every
// micro-batch of a step); rewards or a judge say which is the better (train/online_pairs.h); a micro-batch of
// pairs is one pass, each prompt once, as in DPO (train/pair_pass.h). Sampling is at `temperature`, the loss
// at 1.
//
// clang-format off
//   x        (logp_c - logp_r) - (ref_c - ref_r), logp the sum over a completion's tokens, the stop token's too
//   sigmoid  -log sigmoid(beta x)
//   ipo      (x - 1 / (2 beta))^2, of sums: DPO's ipo is of means
//   loss     mean over the micro-batch's pairs, then over the step's micro-batches
// clang-format on
//
// What TRL does otherwise, and what is not copied:
//   - its training_step does not divide by gradient_accumulation_steps: gradients are sums over micro-batches
//   - a list of betas ends its run after the first step (an epoch that is no whole number as an index)
//   - objective/kl, entropy, non_score_reward and rlhf_reward there count the padding behind a completion
//   - objective/rlhf_reward of an epoch's short last micro-batch is there that of the first completions alone
//   - its evaluation does not run; here it samples, scores and takes the same metrics
//   - text prompts there lack the special tokens that the tokenizer adds (BOS)
// objective/* are of the pairs that train: under skip_ties the others are not computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "config/plan.h"
#include "data/order.h"
#include "learn/preference_loss.h"
#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "train/loop.h"
#include "train/online_pairs.h"
#include "train/pair_pass.h"
#include "train/rollout_source.h"

namespace hone::train {

constexpr double kLossTemperature = 1;  // whatever sampling has

struct OnlineDpoParts {
  const config::Plan& plan;
  const model::CausalLm& model;
  RolloutSource& source;
  RolloutSource* evaluation = nullptr;  // null: no evaluation
  std::int64_t prompts = 0, evaluation_prompts = 0;
  PassForm form;
  bool dropout = false;  // the trainer's passes drop: they cannot be held against the sampler's record
  RunListener& listener;
  // The values [P] that a continued adapter began with, which take the place of `parameters`
  // (Adapter::flat()) for the reference. Undefined: the base alone.
  at::Tensor parameters, reference = {};
  base::fs::path rollouts_file;            // where dump_rollouts appends; empty: nowhere
  RolloutPrompt rehearsal_prompt = {};     // a prompt of the data, for rehearse()
  rollout::GenerateOptions sampling = {};  // how the run samples
};

class OnlineDpoMethod final : public Method {
 public:
  explicit OnlineDpoMethod(OnlineDpoParts parts);

  void begin_after(std::int64_t steps) override { last_step_ = steps - 1; }
  StepLoss backward(std::int64_t step) override;
  bool has_evaluation() const override { return parts_.evaluation != nullptr; }
  EvalFacts evaluate() override;
  std::int64_t steps_per_epoch() const override { return order_.steps_per_epoch(); }
  std::int64_t total_steps() const override { return total_steps_; }
  double epoch_after(std::int64_t step) const override { return data::epoch_at(order_, step); }
  // Two different short completions of a prompt, the first chosen, through the run's own loss.
  Rehearsal rehearse(const RehearsalRequest& request) override;
  // The pairs of the newest step that trained, each alone.
  void replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) override;

  double beta_at(std::int64_t step) const;  // of the step's epoch

 private:
  struct Found {
    double loss = 0;  // mean over the pairs of the pass
    std::vector<NamedValue> metrics;
    double ratio_gap = -1;  // below 0: not known
  };
  std::vector<std::vector<OnlinePair>> generate(std::int64_t step, RolloutBatch& batch, StepLoss& out);
  PairPass pass_of(std::span<const OnlinePair> pairs, std::int64_t row_base = 0) const;
  at::Tensor reference_of(const PairPass& one) const;
  learn::PreferenceGradient loss_of(const PairPass& one, const PolicyScores& scores,
                                    const at::Tensor& reference, double beta) const;
  // `backward_scale` 0: forward only; else gradients of loss * backward_scale are added.
  Found run_pairs(std::span<const OnlinePair> pairs, const RolloutBatch& batch, const PassKey& key,
                  double beta, double backward_scale, std::int64_t row_base) const;
  bool shares() const { return parts_.form.is_explicit && parts_.plan.policy.share_prompt; }

  OnlineDpoParts parts_;
  data::Order order_;
  std::int64_t total_steps_ = 0;
  std::int64_t last_step_ = -1;
  RolloutBatch newest_;                   // of last_step_
  std::vector<OnlinePair> newest_pairs_;  // that trained
  UnscoredBatches unscored_;
};

// open_online_dpo and begin_run: read, check, attach, announce, train, save. Throws UserError before anything
// is written when the input is at fault.
LoopResult run_online_dpo(const config::Plan& plan, RunListener& listener,
                          const std::atomic<bool>& stop_requested);

}  // namespace hone::train
