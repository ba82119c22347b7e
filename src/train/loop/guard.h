// The interface through which the doctor watches a run: train/ calls it, doctor/ implements it.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "train/loop/training_method.h"

namespace hone::adapters {
class Adapter;
}

namespace hone::train {

struct RunView;

// A guard asks this of the loop.
enum class GuardAction {
  kContinue,
  kPause,  // save a checkpoint and end, as after Ctrl-C; the run can be resumed
};

// Ends a run because of a fault. Unlike after other errors, no checkpoint is saved first, since its contents
// may be damaged.
class GuardStop : public base::UserError {
 public:
  using UserError::UserError;
};

// Every call comes from the loop's own thread. Any of them may throw GuardStop, which ends the run at once:
// before on_step() the step has not been applied. Checkpoints are not changed.
class RunGuard {
 public:
  virtual ~RunGuard() = default;
  // After the run was announced (RunListener::on_start) and before its first step. Leaves parameters,
  // gradients, moments and the method unchanged, bit for bit.
  virtual void before_first_step(const RunView& /*run*/) {}
  // The gradients of step `step` (1-based) are in the adapter, not yet clipped; the parameters have not
  // changed. Where the optimizer steps in the backward (train/loop/layer_steps.h) the adapter has no gradients, and without
  // clipping the parameters are those after the step.
  virtual void on_backward(std::int64_t /*step*/, const StepLoss& /*loss*/,
                           const adapters::Adapter& /*adapter*/) {}
  // Loss or gradient of step `step` is not finite, and the step is not applied: the run ends with a
  // UserError, the guard's if it throws a more specific one. Finite gradients have been clipped.
  virtual void on_not_finite(std::int64_t /*step*/, double /*loss*/, double /*grad_norm*/) {}
  // The optimizer has updated the parameters.
  virtual GuardAction on_step(const StepFacts& /*facts*/, const adapters::Adapter& /*adapter*/) {
    return GuardAction::kContinue;
  }
  // A checkpoint of step `step` was written to `folder`.
  virtual void on_save(const std::string& /*folder*/, std::int64_t /*step*/) {}
  // The guard's files for a checkpoint, with names that no method uses. A resumed run gets them in
  // ResumeState::method_files.
  virtual StateFiles state_files() const { return {}; }
  // The step of the checkpoint that rotation must keep, the last healthy one; -1: none.
  virtual std::int64_t pinned_step() const { return -1; }
};

}  // namespace hone::train
