// The training loop: optimizer steps, logging, evaluation, checkpoints, stopping. Independent of method and
// loss.
#pragma once

#include <atomic>
#include <cstdint>

#include "adapters/lora.h"
#include "config/plan.h"
#include "learn/optimizer.h"
#include "text/tokenizer.h"
#include "train/loop/step_strategy.h"
#include "train/loop/training_method.h"
#include "train/saves/run_state.h"

namespace hone::train {

class InputWatch;       // train/opening/input_watch.h
class MovingReference;  // train/passes/moving_reference.h
class RunGuard;         // train/loop/guard.h
class RunSampler;       // train/loop/run_sampler.h

struct LoopParts {
  const config::Plan& plan;
  adapters::Adapter& adapter;
  TrainingMethod& method;
  const text::Tokenizer& tokenizer;
  RunListener& listener;
  const std::atomic<bool>& stop_requested;  // set by Ctrl-C: finish the step, save, return
  learn::Optimizer& optimizer;
  StepStrategy& steps;  // of that optimizer
  RunState& state;
  parallel::Ranks& ranks;           // rank 0 has guard, and writes; others are silent
  std::int64_t planned_memory = 0;  // bytes of StartFacts::memory; 0: the peak is not compared
  RunGuard* guard = nullptr;
  RunSampler* sampler = nullptr;
  MovingReference* reference = nullptr;  // null: it stays
  InputWatch* inputs = nullptr;  // looked at before evaluations and checkpoints, and where an epoch ends
};

struct LoopResult {
  bool interrupted = false;  // by Ctrl-C, or paused by the guard
  bool paused = false;       // by the guard; without `interrupted`: a fault in the last step
  std::int64_t step = 0;
};

// Runs from state.step to the end. UserError when loss or gradient norm is not finite: the step is not
// applied, and the last checkpoint is unchanged. An error of TrainingMethod::backward or evaluate (a reward
// that fails, a judge that does not reply) also ends the run, after a checkpoint of the last completed step,
// which the error names; the resumed run is bit-equal to one without the error. With several ranks all of them stop, pause
// and save together; a RankFault when one is lost, or when their losses or parameters differ (DIST-02, DIST-03).
LoopResult run_loop(const LoopParts& parts);

}  // namespace hone::train
