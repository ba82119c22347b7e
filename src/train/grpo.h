// GRPO and RLOO: TRL 1.16's GRPOTrainer and RLOOTrainer with native rollouts.
//
// What differs from TRL, by design:
//   - micro-batches are composed by group, so that a shared prompt is computed once; what TRL normalises a
//   micro-batch
//     (bnpo, top_entropy_quantile, the entropy bonus) is normalised over the optimizer step. A replayed batch
//     with slices is computed as TRL did, micro-batch by micro-batch.
//   - samples whose gradient is exactly 0 are not computed again: their log-probabilities and entropies are
//   those that
//     the sampler recorded. Denominators count them; the metric skipped_rows says how many.
//   - reward functions are called once a group, while others are still being generated; TRL calls them once a
//     generation batch. trainer_state.log_history is empty, and step_time is no metric: metrics.jsonl repeats
//     bit for bit.
//   - old log-probabilities are those that the sampler recorded (dropout off), not a pass of their own.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/plan.h"
#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "train/loop.h"
#include "train/policy_order.h"
#include "train/policy_step.h"
#include "train/rollout_source.h"

namespace hone::train {

struct PolicyParts {
  const config::Plan& plan;
  const model::CausalLm& model;
  RolloutSource& source;
  RolloutSource* evaluation = nullptr;  // null: no evaluation
  std::int64_t evaluation_prompts = 0;
  PolicyOrder order;
  PassForm form;
  std::int64_t pass_tokens = 0;  // of the planned pass: PassLimit::tokens
  bool dropout =
      false;  // the trainer's passes drop, so that they cannot be held against the sampler's record
  RunListener& listener;
  // The reference model, where beta is not 0: the base alone, or with the values [P] that a continued adapter
  // began with, which take the place of `parameters` (Adapter::flat()) for its passes. Undefined: the base
  // alone.
  at::Tensor parameters, reference = {};
  base::fs::path rollouts_file;            // where dump_rollouts appends; empty: nowhere
  RolloutPrompt rehearsal_prompt = {};     // a prompt of the data, for rehearse()
  rollout::GenerateOptions sampling = {};  // how the run samples
};

class PolicyMethod final : public Method {
 public:
  // `state_files`: of the checkpoint that the run goes on from.
  PolicyMethod(PolicyParts parts, const std::map<std::string, std::string>& state_files);

  void begin_after(std::int64_t steps) override { last_step_ = steps - 1; }
  StepLoss backward(std::int64_t step) override;
  void stepped(std::int64_t step) override;
  bool has_evaluation() const override { return parts_.evaluation != nullptr; }
  EvalFacts evaluate() override;
  std::int64_t steps_per_epoch() const override { return parts_.order.steps_per_epoch(); }
  std::int64_t total_steps() const override { return total_steps_; }
  double epoch_after(std::int64_t step) const override { return parts_.order.epoch_after(step); }
  // Two completions of a prompt, sampled and then trained on with advantages 1 and -0.5.
  Rehearsal rehearse(const RehearsalRequest& request) override;
  // Those of the newest generation batch, each with its own advantage (or 1).
  void replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) override;
  StateFiles state_files() const override;
  // The first generation batch that a run makes which goes on after `steps` steps.
  std::int64_t next_generation(std::int64_t steps) const;

 private:
  // The slices of a step that come from one use of a generation batch.
  struct Part {
    std::shared_ptr<ScoredRollouts> rollouts;
    std::int64_t iteration = 0;
    std::int64_t row_base = 0;  // make_policy_pass's: parts of a step drop apart
    bool fresh = false;         // generated in this step: the sampler's weights are still the trainer's
    std::vector<std::vector<std::size_t>> slices;  // samples of each
  };
  // What a step gathers while it goes through its parts.
  struct Found {
    StepLoss loss;
    double rollout_seconds = 0, reward_seconds = 0;
    std::vector<learn::PolicyMetrics> metrics;
    double ratio_gap = -1;  // largest |trainer - sampler| log-probability; below 0: not known
    std::int64_t skipped = 0;
  };

  StepLoss make_step(std::int64_t step);
  std::vector<Part> load(std::int64_t step, Found& found);
  std::shared_ptr<ScoredRollouts> generate(std::int64_t generation, std::int64_t step, Found& found);
  void add_reference(RolloutBatch& batch) const;
  void score_reference(RolloutBatch& batch, bool adapters_on) const;
  void train_by_group(const Part& part, const learn::StepTotals& totals, const PassKey& key, Found& found);
  void train_pass(const Part& part, std::span<const std::size_t> samples, const learn::StepTotals& totals,
                  const PassKey& key, Found& found);
  std::vector<std::size_t> without_gradient(const Part& part, std::span<const std::size_t> samples,
                                            const learn::StepTotals& totals, Found& found) const;
  void find_entropy_threshold(const std::vector<Part>& parts, learn::StepTotals& totals,
                              const PassKey& key) const;
  void add_metrics(Found& found, bool by_slice);
  base::Json state_of(std::int64_t step) const;  // trainer_state
  std::vector<std::vector<std::size_t>> slices_of(const RolloutBatch& batch) const;
  bool uses_old_logprobs() const;
  void require_fitting(const RolloutBatch& batch, const std::string& where) const;
  PassLimit pass_limit() const;
  double applied_entropy_coef() const;  // of the step that is made now

  PolicyParts parts_;
  learn::PolicyLossOptions options_;
  std::int64_t total_steps_ = 0;
  std::shared_ptr<ScoredRollouts> current_;  // the newest generation batch
  std::int64_t last_step_ = -1;
  UnscoredBatches unscored_;
  // The adaptive entropy_coef's state now, and after the step that is being made.
  struct EntropyControl {
    double coef = 0;
    double last_entropy = std::numeric_limits<double>::infinity();
  };
  EntropyControl entropy_, next_entropy_;
};

// open_policy and begin_run: read, check, attach, announce, train, save. Throws UserError before anything is
// written when the input is at fault.
LoopResult run_policy(const config::Plan& plan, RunListener& listener,
                      const std::atomic<bool>& stop_requested);

}  // namespace hone::train
