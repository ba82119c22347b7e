// Online DPO: TRL 1.16's OnlineDPOTrainer (trl.experimental.online_dpo) with native rollouts.
//
// A step samples two completions of each of its prompts, all at once (the weights are the same for every
// micro-batch of a step); rewards or a judge say which is the better (online_pairs.h); a micro-batch of
// pairs is one pass, each prompt once, as in DPO (train/passes/pair_pass.h). Sampling is at `temperature`, the loss
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

#include <functional>
#include <span>
#include <vector>

#include "data/records/order.h"
#include "learn/preference_loss.h"
#include "train/methods/methods.h"
#include "train/methods/online_dpo/online_pairs.h"
#include "train/passes/pair_pass.h"
#include "train/steps/sampling_method.h"

namespace hone::train::online_dpo {

class OnlineDpo final : public SamplingMethod {
 public:
  explicit OnlineDpo(SamplingParts parts);

  StepLoss backward(std::int64_t step) override;
  EvalFacts evaluate() override;
  std::int64_t steps_per_epoch() const override { return order_.steps_per_epoch(); }
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
    KlByDepth kl = {};
    template <typename Archive>
    friend void fields(Archive& archive, Found& facts) {
      archive(facts.loss, facts.metrics, facts.ratio_gap, facts.kl);
    }
  };
  std::int64_t next_generation(std::int64_t steps) const override { return steps; }  // one a step
  std::vector<std::vector<OnlinePair>> generate(std::int64_t step, RolloutBatch& batch, StepLoss& out);
  PairPass pass_of(std::span<const OnlinePair> pairs, std::int64_t row_base = 0) const;
  at::Tensor reference_of(const PairPass& one) const;  // of each token
  learn::PreferenceGradient loss_of(const PairPass& one, const TokenScores& scores,
                                    const at::Tensor& reference, double beta) const;
  // `backward_scale` 0: forward only; else gradients of loss * backward_scale are added.
  Found run_pairs(std::span<const OnlinePair> pairs, const RolloutBatch& batch, const RngKey& key,
                  double beta, double backward_scale, std::int64_t row_base) const;

  data::Order order_;
  RolloutBatch newest_;                   // of last_step_
  std::vector<OnlinePair> newest_pairs_;  // that trained
};

MethodOpening row();

}  // namespace hone::train::online_dpo
