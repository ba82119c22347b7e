// The training methods, one row each: how a run is opened, and data for the doctor. Options and their rules
// are the row of the same method in config/methods.cpp. A method's own code is its folder,
// train/methods/<name>/; what several share is in train/ (row_method, pair_method, sampling_method).
#pragma once

#include <span>

#include "base/read_keys.h"
#include "config/plan.h"
#include "data/files/row_columns.h"

namespace hone::train {

struct RecordOpening;    // train/opening/record_opening.h
struct SamplingOpening;  // train/opening/sampling_opening.h

// Peak learning rates of LoRA with AdamW, at rank 16 and scale 2 (TRL's defaults, alpha 32).
struct LearningRates {
  double least = 1e-6;  // below: almost no learning
  double usual = 2e-5;  // proposed
  double most = 1e-3;   // above: rarely stable
};

enum class ExpertsBalance {
  kNever,
  kByOption,  // always, with the factor router_aux_loss_coef
  kByModel,   // where config.json has output_router_logits, with its router_aux_loss_coef
};

struct MethodOpening {
  config::Method method;
  // One of the two: the method trains on given rows, or on completions that it samples.
  const RecordOpening* records = nullptr;
  const SamplingOpening* sampling = nullptr;
  const base::ReadKeys& (*columns)() = &data::prompt_columns;  // that it reads
  LearningRates rates = {};
  // Says whether a new adapter's first loss is ln 2, which the doctor then checks. Null: never.
  bool (*begins_at_ln2)(const config::Plan&) = nullptr;
  // Says when TRL adds the load-balancing loss of a model with experts.
  ExpertsBalance experts_balance = ExpertsBalance::kNever;
};

std::span<const MethodOpening> method_openings();
const MethodOpening& method_opening(config::Method method);

}  // namespace hone::train
