// A method that samples what it trains on: GRPO, RLOO, Online DPO. The source of completions, their events,
// the reference's passes and the resume state are here; a method defines a step.
#pragma once

#include <optional>
#include <string>

#include "config/plan.h"
#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "train/batches/rollout_source.h"
#include "train/batches/shared_rollouts.h"
#include "train/loop/loop.h"
#include "train/passes/policy_pass.h"
#include "train/passes/reference.h"
#include "train/steps/micro_batches.h"

namespace hone::train {

class RemoteTeacher;  // train/references/remote_teacher.h

struct SamplingParts {
  const config::Plan& plan;
  const model::CausalLm& model;
  RolloutSource& source;
  RolloutSource* evaluation = nullptr;  // null: no evaluation
  std::int64_t prompts = 0, evaluation_prompts = 0;
  data::StreamedRows streamed = {};  // prompts
  PassForm form;
  std::int64_t pass_tokens = 0;  // of the planned pass: PassLimit::tokens
  // The trainer's passes have dropout, so that they cannot be compared with the sampler's values.
  bool dropout = false;
  RunListener& listener;
  Reference reference = {};
  std::shared_ptr<RemoteTeacher> teacher = nullptr;  // of distillation, in place of a reference
  base::fs::path rollouts_file;                      // where dump_rollouts appends; empty: nowhere
  RolloutPrompt rehearsal_prompt = {};               // a prompt of the data, for rehearse()
  rollout::GenerateOptions sampling = {};            // how the run samples
};

class SamplingMethod : public TrainingMethod {
 public:
  explicit SamplingMethod(SamplingParts parts) : parts_(std::move(parts)) {}

  // Also takes out of rollouts_file what an earlier start wrote of batches that are made again.
  void resume_after(std::int64_t steps) final;
  void on_saved(std::int64_t steps) final;
  bool has_evaluation() const final { return parts_.evaluation != nullptr; }
  std::int64_t total_steps() const final { return total_steps_; }
  void share(SharedWork* work) final;

 protected:
  RolloutSource& source() { return shared_ ? *shared_ : parts_.source; }
  // The first generation batch that a run makes which goes on after `steps` steps.
  virtual std::int64_t next_generation(std::int64_t steps) const = 0;

  // A generation batch that step `step` (0-based) has made: to the listener, and to rollouts_file. Adds one
  // line of warning about `left_out` completions or pairs, with `why`; UserError when nothing was scored,
  // again and again.
  void tell(RolloutFacts& facts, const RolloutBatch& batch, std::int64_t step, std::int64_t left_out,
            const std::string& why, bool nothing_scored);
  SourcedRollouts sample_evaluation(std::int64_t completions_a_prompt);
  base::Json state_of(std::int64_t step) const;  // trainer_state
  RngKey training_key(std::int64_t step) const;
  bool shares() const { return parts_.form.is_fused && parts_.plan.share_prompt; }

  SamplingParts parts_;
  std::int64_t total_steps_ = 0;
  std::int64_t last_step_ = -1;

 private:
  std::int64_t saved_ = 0;  // steps of the last checkpoint
  std::optional<SharedRollouts> shared_, shared_evaluation_;
  UnscoredBatches unscored_;
};

}  // namespace hone::train
