// Who watches a run from within: the doctor's seat in the loop. train/ calls, doctor/ answers.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "train/loop.h"

namespace hone::train {

struct OpenedRun;

// What a guard wants of the loop.
enum class GuardAction {
  kContinue,
  kPause,  // save a checkpoint and end, as after Ctrl-C; the run can be resumed
};

// Ends a run for what was found in it. No checkpoint is saved first, as after other errors: what it would
// hold may be harmed.
class GuardStop : public base::UserError {
 public:
  using UserError::UserError;
};

// Every call comes from the loop's own thread. Any of them may throw GuardStop, which ends the run there:
// before on_step() the step has not been applied, and checkpoints stay as they are.
class RunGuard {
 public:
  virtual ~RunGuard() = default;
  // After the run was announced (RunListener::on_start) and before its first step. Leaves parameters,
  // gradients, moments and the method bit for bit as they were.
  virtual void before_first_step(OpenedRun& /*run*/) {}
  // The gradients of step `step` (1-based) are in the adapter, not yet clipped; nothing has moved.
  virtual void on_backward(std::int64_t /*step*/, const StepLoss& /*loss*/,
                           const adapters::Adapter& /*adapter*/) {}
  // Loss or gradient of step `step` is not finite, and the step is not applied: the run ends with a
  // UserError, of the guard when it throws one that knows more. Finite gradients have been clipped, others
  // are not finite still.
  virtual void on_not_finite(std::int64_t /*step*/, double /*loss*/, double /*grad_norm*/) {}
  // The optimizer has moved the parameters.
  virtual GuardAction on_step(const StepFacts& /*facts*/, const adapters::Adapter& /*adapter*/) {
    return GuardAction::kContinue;
  }
  // A checkpoint of step `step` lies in `folder`.
  virtual void on_save(const std::string& /*folder*/, std::int64_t /*step*/) {}
  // What it keeps in a checkpoint: names that no method has. A resumed run finds them in
  // ResumeState::method_files.
  virtual StateFiles state_files() const { return {}; }
  // The step of the checkpoint that rotation must leave alone, the last healthy one; -1: none.
  virtual std::int64_t pinned_step() const { return -1; }
};

}  // namespace hone::train
