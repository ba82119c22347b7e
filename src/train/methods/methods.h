// The training methods, a row each: what opens a run, and what the doctor knows of it. Options and their
// rules are the row of the same method in config/methods.cpp. A method's own code is its folder,
// train/methods/<name>/; what several share is in train/ (row_method, pair_method, sampling_method).
#pragma once

#include <memory>
#include <span>

#include "config/plan.h"
#include "train/step_facts.h"

namespace hone::train {

struct OpenedRun;

// Peak learning rates of LoRA with AdamW, at rank 16 and scale 2 (TRL's defaults, alpha 32).
struct LearningRates {
  double least = 1e-6;  // below: is almost too low to learn
  double usual = 2e-5;  // proposed
  double most = 1e-3;   // above: seldom stays stable
};

struct MethodRow {
  config::Method method;
  std::unique_ptr<OpenedRun> (*open)(const config::Plan&, RunListener&);
  LearningRates rates = {};
  // Whether a new adapter's first loss is ln 2, which the doctor then looks for. Null: never.
  bool (*begins_at_ln2)(const config::Plan&) = nullptr;
};

std::span<const MethodRow> method_rows();
const MethodRow& method_row(config::Method method);

}  // namespace hone::train
