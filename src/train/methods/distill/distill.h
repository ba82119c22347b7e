// On-policy distillation: TRL 1.16's DistillationTrainer with native rollouts (arXiv 2306.13649).
//
// A step samples one completion of each of its prompts, all at once; a micro-batch is one pass of the teacher and one
// of the trained model over per_device_train_batch_size of them, and the loss compares the two at each sampled token
// (learn/divergence/divergence.h), with the temperature of sampling in both.
//
//   loss        sum of D over the micro-batch's tokens / max(1, the sampled tokens of the optimizer step, of all ranks)
//   entropy     mean over the micro-batch's tokens of the student's entropy, then over micro-batches
//   evaluation  the mean over a batch's tokens, then over batches by their prompts; one completion a prompt
//
// With lmbda below 1 some micro-batches have given completions, or the teacher's (train/batches/mixed_rollouts.h), as in TRL's
// GKDTrainer; an evaluation is then of the given ones. TRL counts the tokens of a step before it samples, and so divides by the
// number of other tokens; here they are those of the loss.
//
// loss_type sampled is a policy gradient at the sampled tokens (learn/divergence/sampled_divergence.h), with the
// metric teacher_kl, also of evaluations.
//
// loss_type top_k is KL(teacher, student) at what a teacher behind a server says (train/references/remote_teacher.h,
// learn/divergence/top_k_divergence.h). Such a teacher can be that of loss_type sampled too.
//
// With tools or an environment a completion is a dialogue, as in GRPO (train/batches/tool_rollouts.h). The teacher reads it whole, and
// what tools gave is in no loss.
//
// The teacher is ReferencePlan::ref_model, with its own dtype and quantization; the same folder as the model's is the
// model without its adapter. TRL shuffles the completions of a step before it cuts micro-batches; here they come in
// the prompts' order, and a replayed batch has its slices.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "learn/divergence/divergence.h"
#include "train/methods/methods.h"
#include "train/passes/divergence_pass.h"
#include "train/references/remote_teacher.h"
#include "train/steps/policy_order.h"
#include "train/steps/sampling_method.h"

namespace hone::train::distill {

class Distill final : public SamplingMethod {
 public:
  explicit Distill(SamplingParts parts);

  StepLoss backward(std::int64_t step) override;
  EvalFacts evaluate() override;
  std::int64_t steps_per_epoch() const override { return order_.steps_per_epoch(); }
  double epoch_after(std::int64_t step) const override { return order_.epoch_after(step); }
  // Two short completions of a prompt through the run's own loss.
  Rehearsal rehearse(const RehearsalRequest& request) override;
  // The completions of the newest step, each alone.
  void replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) override;

 private:
  std::int64_t next_generation(std::int64_t steps) const override { return steps; }  // one a step
  void require_fitting(const RolloutBatch& batch, const std::string& where) const;
  std::vector<std::vector<std::size_t>> slices_of(const RolloutBatch& batch) const;
  void add_mix_metric(std::vector<NamedValue>& metrics, std::int64_t step, std::size_t micro_batches) const;
  TeacherScores ask_teacher(const RolloutBatch& batch, const PolicyPass& pass, std::int64_t k) const;
  DivergenceFacts run_top_k(const RolloutBatch& batch, const PolicyPass& pass, const RngKey& key,
                            double factor) const;
  DivergenceFacts run_sampled(const RolloutBatch& batch, const PolicyPass& pass, const at::Tensor& sampler,
                              const RngKey& key, double factor) const;
  DivergenceFacts run_samples(const RolloutBatch& batch, std::span<const std::size_t> samples,
                              const RngKey& key, double factor) const;

  PolicyOrder order_;
  learn::DivergenceOptions options_;
  RolloutBatch newest_;  // of last_step_
};

MethodOpening row();

}  // namespace hone::train::distill
