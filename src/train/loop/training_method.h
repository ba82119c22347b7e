// A training method as the loop and the doctor see it: passes that add gradients, evaluations, rehearsals. Independent
// of how an optimizer step is made of the gradients (train/loop/step_strategy.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/facts/step_facts.h"
#include "train/loop/shared_work.h"

namespace hone::train {

// The results of one optimizer step's forward and backward passes.
struct StepLoss {
  double loss = 0;  // summed over micro-batches, normalized over the whole step
  // TRL's metrics, for each micro-batch or generation batch in order: a name may occur several times. The
  // logged value is the mean since the last log, without NaN.
  std::vector<NamedValue> metrics;
  std::vector<NamedValue> timings;  // StepFacts::timings
  // Counts that differ from run to run: added up until the next log, in its block `performance`.
  std::vector<NamedValue> counts = {};
  std::int64_t tokens = 0;  // in the batches, scored or not
  // Samples of the step whose advantage is not 0: if there is none the loss has no meaning. -1: a method
  // without advantages.
  std::int64_t live_rows = -1;
  KlByDepth kl = {};  // of Online DPO, whose reference is read in the step; of others RolloutFacts has it
};

struct EvalFacts {
  std::string set = {};             // which of several evaluation sets; empty: the only one
  std::vector<NamedValue> metrics;  // without the prefix eval_, "loss" first
  std::int64_t rows = 0, batches = 0;
  double seconds = 0;
};

template <typename Archive>
void fields(Archive& archive, EvalFacts& facts) {
  archive(facts.set, facts.metrics, facts.rows, facts.batches, facts.seconds);
}

// A method's own files in a checkpoint: file name and text.
using StateFiles = std::vector<std::pair<std::string, std::string>>;

// A small micro-batch of the run's data through the method's passes, with which the doctor checks before step
// 1 that every tensor receives a gradient.
struct RehearsalRequest {
  std::int64_t index = 0;         // which one; equal requests of equal parameters give equal bits
  std::int64_t max_tokens = 256;  // approximate; longer examples are cut to their end
  bool backward = true;           // false: loss only
  bool training = true;           // dropout as in training
  bool adapters_on = true;        // false: only the base; forward only
};
struct Rehearsal {
  double loss = 0;  // the loss of the backward
  double nll = 0;   // mean -log p of the scored tokens, nats
  std::int64_t tokens = 0, scored = 0;
  std::int64_t cost = 0;  // tokens as TrainingMethod::step_costs counts them; 0: `tokens`
  // Largest |sampler's - trainer's| log-probability; methods that do not sample: empty. Dropout off in both.
  std::optional<double> sampler_gap;
};

// One sample of a step that was run again on its own.
struct ReplayedSample {
  std::string name;  // "line 18 of train.jsonl"
  double loss = 0;
};

// A training method: one file each (sft.cpp).
class TrainingMethod {
 public:
  virtual ~TrainingMethod() = default;
  // Before the first backward() or evaluate() of a run that continues after `steps` steps.
  virtual void resume_after(std::int64_t /*steps*/) {}
  // Adds step `step`'s (0-based) gradients to the adapter's; must be a pure function of parameters, `step`
  // and state_files(). If it throws, state_files() is unchanged.
  virtual StepLoss backward(std::int64_t step) = 0;
  // Step `step` (0-based) is done: the optimizer has updated the parameters.
  virtual void on_step(std::int64_t /*step*/) {}
  // A checkpoint after `steps` steps was written.
  virtual void on_saved(std::int64_t /*steps*/) {}
  virtual bool has_evaluation() const = 0;
  virtual EvalFacts evaluate() = 0;  // of several sets the first
  virtual std::vector<EvalFacts> evaluate_sets() { return {evaluate()}; }
  virtual std::int64_t steps_per_epoch() const = 0;
  virtual std::int64_t total_steps() const = 0;
  virtual double epoch_after(std::int64_t step) const = 0;  // fractional epoch after `step` steps
  // Returns what each micro-batch of step `step` (0-based) costs, in tokens: ranks share the step by these.
  // Empty: not known before the step.
  virtual std::vector<std::int64_t> step_costs(std::int64_t /*step*/) const { return {}; }
  // State of the next step besides step and parameters; a resumed run passes it back.
  virtual StateFiles state_files() const { return {}; }
  // Adds the gradients of a rehearsal to the adapter's, which the caller has cleared; changes nothing else.
  virtual Rehearsal rehearse(const RehearsalRequest& request) = 0;
  // Runs the samples of step `step` (0-based), that of the last backward(), again one by one, and calls `see`
  // after each. Its gradients are then in the adapter's, which `see` clears; false ends the loop. Optional.
  virtual void replay_samples(std::int64_t /*step*/,
                              const std::function<bool(const ReplayedSample&)>& /*see*/) {}
  // With which ranks backward() and evaluations share their work from now on; `work` must outlive that. Before, and with null,
  // this process does all of it, as rehearsals and replays always do.
  virtual void share(SharedWork* work) { work_ = work == nullptr ? &own_ : work; }

 protected:
  SharedWork& work() { return *work_; }

 private:
  SharedWork own_;
  SharedWork* work_ = &own_;
};

}  // namespace hone::train
