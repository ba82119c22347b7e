// A run opened and not yet begun: everything between the plan and step 1. The training commands begin it,
// `hone doctor` examines it and lets it go.
//
//   const std::unique_ptr<OpenedRun> run = open_run(plan, listener);
//   const LoopResult result = begin_run(*run, listener, stop_requested, &guard);
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <variant>

#include "adapters/lora.h"
#include "config/plan.h"
#include "model/causal_lm.h"
#include "model/weight_source.h"
#include "train/guard.h"
#include "train/loop.h"
#include "train/open_model.h"
#include "train/run_data.h"
#include "train/run_setup.h"
#include "train/step_facts.h"

namespace hone::train {

// Its parts refer to each other: it stays where it was made.
struct OpenedRun {
  explicit OpenedRun(const config::Plan& of) : plan(of), directory(of) {}
  OpenedRun(const OpenedRun&) = delete;
  OpenedRun& operator=(const OpenedRun&) = delete;

  const config::Plan plan;
  RunDirectory directory;
  std::unique_ptr<model::WeightSource> source;
  std::optional<OpenedText> text;
  std::optional<model::CausalLm> model;
  std::optional<adapters::Adapter> adapter;
  std::optional<ResumeState> resume_state;
  StartFacts start;
  RunData data;
  std::unique_ptr<TrainingMethod> method;

  bool has_examples() const { return std::holds_alternative<ExampleData>(data); }
  bool has_pairs() const { return std::holds_alternative<PairData>(data); }
  bool samples() const { return std::holds_alternative<SampledData>(data); }
  const SampledData& sampled() const { return std::get<SampledData>(data); }  // of a method that samples
};

// Reads, checks, attaches, plans; writes nothing. UserError when the input is at fault. `listener` must
// outlive the run. The row of the plan's method (train/methods/methods.h) says how.
std::unique_ptr<OpenedRun> open_run(const config::Plan& plan, RunListener& listener);

// Makes output_dir, announces, trains, saves. `guard` may be null.
LoopResult begin_run(OpenedRun& run, RunListener& listener, const std::atomic<bool>& stop_requested,
                     RunGuard* guard = nullptr);

}  // namespace hone::train
