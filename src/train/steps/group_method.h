// GRPO and RLOO: TRL 1.16's GRPOTrainer and RLOOTrainer with native rollouts. Advantages compare the
// completions of a prompt; the method's GroupLoss defines how, and the loss.
//
// Differences from TRL, by design:
//   - micro-batches are composed by group, so that a shared prompt is computed once; what TRL normalizes over
//     a micro-batch (bnpo, top_entropy_quantile, the entropy bonus) is normalized over the optimizer step. A
//     replayed batch with slices is computed as TRL did, micro-batch by micro-batch.
//   - samples whose gradient is exactly 0 are not computed again: their log-probabilities and entropies are
//     those that the sampler recorded. Denominators count them; the metric skipped_rows says how many.
//   - reward functions are called once per group, while other groups are still being generated; TRL calls
//     them once per generation batch. trainer_state.log_history is empty, and step_time is not a metric:
//     metrics.jsonl is reproducible bit for bit.
//   - old log-probabilities are those that the sampler recorded (dropout off), not from a separate pass. Completions of a rollout
//     function have no such record: there they are from a pass, as TRL's. On a device other than the CPU the record is near the
//     trainer's and not equal: where a generation batch has one optimizer step the old ones are the step's own, and else from a pass.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/steps/policy_order.h"
#include "train/steps/policy_step.h"
#include "train/steps/sampling_method.h"

namespace hone::train {

class GroupMethod final : public SamplingMethod {
 public:
  // `loss` must outlive it. `state_files`: of the checkpoint that the run continues from.
  GroupMethod(SamplingParts parts, const GroupLoss& loss, PolicyOrder order,
              const std::map<std::string, std::string>& state_files);

  StepLoss backward(std::int64_t step) override;
  void on_step(std::int64_t step) override;
  EvalFacts evaluate() override;
  std::int64_t steps_per_epoch() const override { return order_.steps_per_epoch(); }
  double epoch_after(std::int64_t step) const override { return order_.epoch_after(step); }
  // Samples two completions of a prompt and trains on them with advantages 1 and -0.5.
  Rehearsal rehearse(const RehearsalRequest& request) override;
  // Replays the samples of the newest generation batch, each with its own advantage (or 1).
  void replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) override;
  StateFiles state_files() const override;

 private:
  // The slices of a step that come from one use of a generation batch.
  struct Part {
    std::shared_ptr<ScoredRollouts> rollouts;
    std::int64_t iteration = 0;
    std::int64_t row_base = 0;  // make_policy_pass's: distinct dropout for the parts of a step
    // generated in this step: the sampler's weights are still those of the trainer
    bool fresh = false;
    std::vector<std::vector<std::size_t>> slices;  // samples of each
  };
  // Samples of a part that go through the model together.
  struct Pass {
    const Part* part = nullptr;
    std::vector<std::size_t> samples;
    std::size_t slice = 0;  // of the step, where the routers' loss is a slice's
    double share = 1;       // of the slice
  };
  // Holds what a pass found, for all ranks.
  struct PassFacts {
    double loss = 0;
    learn::PolicyMetrics metrics;
    double ratio_gap = -1, gap_sum = 0;  // of the tokens whose gap is known, gap_tokens
    double gap_tokens = 0;
    double balance = 0;  // the load-balancing loss of the routers
  };
  // Holds what a step accumulates over its parts.
  struct Found {
    StepLoss loss;
    double rollout_seconds = 0, reward_seconds = 0;
    std::vector<learn::PolicyMetrics> metrics;
    double ratio_gap = -1;               // largest |trainer - sampler| log-probability; below 0: not known
    double gap_sum = 0, gap_tokens = 0;  // of all that are known

    void see_gaps(double most, double sum, double tokens) {
      ratio_gap = std::max(ratio_gap, most);
      gap_sum += sum;
      gap_tokens += tokens;
    }
    std::int64_t skipped = 0;
  };

  StepLoss make_step(std::int64_t step);
  std::vector<Part> load(std::int64_t step, Found& found);
  std::shared_ptr<ScoredRollouts> generate(std::int64_t generation, std::int64_t step, Found& found);
  void add_reference(RolloutBatch& batch);
  void add_scores(RolloutBatch& batch, Found* gaps = nullptr);  // gaps: from what was recorded
  ScoredRollouts score(RolloutBatch batch, std::int64_t group);
  // Whole batches are pooled, and a pass is by group; by slice TRL's micro-batches are passes.
  std::vector<Pass> passes_of(const std::vector<Part>& parts, bool by_slice, const learn::StepTotals& totals,
                              Found& found) const;
  static learn::StepTotals totals_of(const Part& part, learn::StepTotals totals);
  void train(const std::vector<Pass>& passes, const learn::StepTotals& totals, const RngKey& key,
             Found& found);
  PassFacts train_pass(const Pass& one, const learn::StepTotals& totals, const RngKey& key) const;
  std::vector<std::size_t> without_gradient(const Part& part, std::span<const std::size_t> samples,
                                            const learn::StepTotals& totals, Found& found) const;
  void find_entropy_threshold(const std::vector<Part>& parts, learn::StepTotals& totals, const RngKey& key);
  void add_metrics(Found& found, bool by_slice);
  RouterTokens routers() const;
  // As find_entropy_threshold(), for an evaluation.
  double eval_balance(const RolloutBatch& batch) const;
  std::int64_t next_generation(std::int64_t steps) const override;
  std::vector<std::vector<std::size_t>> slices_of(const RolloutBatch& batch) const;
  bool uses_old_logprobs() const;
  bool scores_before() const;  // old log-probabilities are from a pass
  // policy_tokens(), with the old log-probabilities of this method.
  learn::PolicyTokens tokens_of(const ScoredRollouts& rollouts, std::span<const std::size_t> samples,
                                const TokenScores& scores) const;
  void require_fitting(const RolloutBatch& batch, const std::string& where) const;
  PassLimit pass_limit() const;
  HeadOptions head_options() const { return {.temperature = parts_.plan.policy.temperature}; }
  double applied_entropy_coef() const;  // of the current step

  const GroupLoss& loss_;
  PolicyOrder order_;
  learn::PolicyLossOptions options_;
  double balance_;                           // router_factor()
  std::shared_ptr<ScoredRollouts> current_;  // the newest generation batch
  // The adaptive entropy_coef's state now, and after the current step.
  struct EntropyControl {
    double coef = 0;
    double last_entropy = std::numeric_limits<double>::infinity();
  };
  EntropyControl entropy_, next_entropy_;
};

}  // namespace hone::train
