// An opened run: everything between the plan and step 1. The training commands begin it, `hone doctor` only
// examines it.
//
//   const std::unique_ptr<OpenedRun> run = open_run(plan, listener);
//   const LoopResult result = begin_run(*run, listener, stop_requested, &guard);
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "adapters/lora.h"
#include "config/plan.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "train/batches/run_data.h"
#include "train/facts/step_facts.h"
#include "train/loop/guard.h"
#include "train/loop/loop.h"
#include "train/loop/run_sampler.h"
#include "train/opening/input_watch.h"
#include "train/opening/open_model.h"
#include "train/opening/run_setup.h"
#include "train/passes/moving_reference.h"

namespace hone::train {

// Describes what the ranks of the host hold once of the base of this run (train/opening/host_base.h).
struct SharedBaseFacts {
  std::int64_t bytes = 0, ranks = 1;
  std::string difference;  // from the base of the host's first rank; empty: none
  // Bytes that a rank's part of the host's memory would not have to hold.
  std::int64_t spared() const { return bytes / ranks * (ranks - 1); }
};

// Not movable, since its parts refer to each other.
struct OpenedRun {
  explicit OpenedRun(const config::Plan& of) : plan(of), directory(of) {}
  OpenedRun(const OpenedRun&) = delete;
  OpenedRun& operator=(const OpenedRun&) = delete;

  config::Plan plan;  // open_source() resolves its layer_form; nothing changes it afterwards
  InputWatch inputs{plan};
  RunDirectory directory;
  std::unique_ptr<model::WeightSource> source;
  std::optional<OpenedText> text;
  std::optional<model::CausalLm> model;
  SharedBaseFacts shared_base;
  std::optional<adapters::Adapter> adapter;
  std::optional<ResumeState> resume_state;
  StartFacts start;
  std::optional<MemoryInputs> memory_inputs;  // what start.memory was planned from
  RunData data;
  std::unique_ptr<TrainingMethod> method;
  // The reference may be another model, which the method holds as long as it needs it, or one that moves,
  // else null.
  std::weak_ptr<const model::CausalLm> second_model;
  std::shared_ptr<MovingReference> moving_reference;
  std::unique_ptr<RunSampler> sampler;  // null: neither sample_prompts nor eval_reward_funcs
};

// Reads, checks, attaches the adapter and plans memory; writes nothing. UserError for wrong input. `listener`
// must outlive the run. Calls the opener in the row of the plan's method (train/methods/methods.h).
std::unique_ptr<OpenedRun> open_run(const config::Plan& plan, RunListener& listener);

// Creates output_dir, announces the run, trains, saves. `guard` may be null. `ranks`: of a run of several processes; ranks other
// than 0 have no guard and a listener that says nothing, and write nothing.
LoopResult begin_run(OpenedRun& run, RunListener& listener, const std::atomic<bool>& stop_requested,
                     RunGuard* guard = nullptr, parallel::Ranks* ranks = nullptr);

}  // namespace hone::train
