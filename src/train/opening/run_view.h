// The doctor asks this of a run, whoever opened it: its parts, as far as there are such.
#pragma once

#include "adapters/lora.h"
#include "config/plan.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "train/batches/run_data.h"
#include "train/facts/step_facts.h"
#include "train/loop/run_sampler.h"
#include "train/loop/training_method.h"
#include "train/opening/open_model.h"
#include "train/opening/run_setup.h"

namespace hone::train {

struct OpenedRun;

// Refers to the run, which outlives it. Copies are views of the same run.
struct RunView {
  RunView(OpenedRun& run);  // NOLINT(google-explicit-constructor): a run is seen wherever a view is asked for

  const config::Plan& plan;
  const RunDirectory& directory;
  const model::WeightSource* source;  // the base's files
  const OpenedText* text;             // tokenizer and templates
  model::CausalLm* model;
  adapters::Adapter* adapter;
  TrainingMethod* method;  // passes over the run's data
  ResumeState* resume_state;
  const RunSampler* sampler;  // null: neither sample_prompts nor eval_reward_funcs
  const StartFacts& start;    // what the start page says
  const RunData& data;

  const RecordData* examples() const { return data.examples(); }
  const RecordData* pairs() const { return data.pairs(); }
  bool has_examples() const { return examples() != nullptr; }
  bool has_pairs() const { return data.has_pairs(); }
  bool samples() const { return data.samples(); }
  const SampledData& sampled() const { return data.sampled(); }
};

}  // namespace hone::train
