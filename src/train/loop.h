// The training loop: optimizer steps, logging, evaluation, checkpoints, stopping. Knows no method and no
// loss.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "config/plan.h"
#include "learn/adamw.h"
#include "text/tokenizer.h"
#include "train/run_state.h"
#include "train/step_facts.h"

namespace hone::train {

// One micro-batch's metrics; TRL appends these and logs their plain mean.
struct MicroBatchFacts {
  double entropy = 0;
  double mean_token_accuracy = 0;
};

// What one optimizer step's forward and backward passes found.
struct StepLoss {
  double loss = 0;  // summed over micro-batches, normalised over the whole step
  std::vector<MicroBatchFacts> micro_batches;
  std::int64_t tokens = 0;  // in the batches, scored or not
};

struct EvalFacts {
  double loss = 0, entropy = 0, mean_token_accuracy = 0;
  std::int64_t rows = 0, batches = 0;
  double seconds = 0;
};

// A training method: one file each (sft.cpp).
class Method {
 public:
  virtual ~Method() = default;
  // Adds step `step`'s (0-based) gradients to the adapter's; must be a pure function of parameters and
  // `step`.
  virtual StepLoss backward(std::int64_t step) = 0;
  virtual bool has_evaluation() const = 0;
  virtual EvalFacts evaluate() = 0;
  virtual std::int64_t steps_per_epoch() const = 0;
  virtual std::int64_t total_steps() const = 0;
  virtual double epoch_after(std::int64_t step) const = 0;  // fractional epoch after `step` steps
};

struct LoopParts {
  const config::Plan& plan;
  adapters::Adapter& adapter;
  Method& method;
  const text::Tokenizer& tokenizer;
  RunListener& listener;
  const std::atomic<bool>& stop_requested;  // set by Ctrl-C: finish the step, save, return
  learn::AdamWState& optimizer;
  RunState& state;
  std::int64_t planned_memory = 0;  // bytes of StartFacts::memory; 0: nothing to hold the peak against
};

struct LoopResult {
  bool interrupted = false;
  std::int64_t step = 0;
};

// Runs from state.step to the end. UserError when loss or gradient norm is not finite: the step is not
// applied, and the last checkpoint stays what it was.
LoopResult run_loop(LoopParts parts);

}  // namespace hone::train
