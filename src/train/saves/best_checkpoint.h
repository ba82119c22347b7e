// The best checkpoint, by a metric of its evaluation: transformers 5.23 Trainer._determine_best_metric and
// _save_checkpoint. The state is part of RunState.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "config/plan.h"
#include "train/facts/step_facts.h"

namespace hone::train {

struct BestCheckpoint {
  std::optional<double> metric;  // the best so far; empty: none was compared
  std::int64_t step = 0;         // of that evaluation; 0: none
  std::int64_t saved = 0;        // the last best step of which there is a checkpoint; 0: none

  base::Json to_json() const;
  static BestCheckpoint from_json(const base::Json& json, const std::string& where);  // BadState
};

// The metric that plan.metric_for_best_model names among those of an evaluation, with their prefix; UserError when
// there is none of that name.
double best_metric_of(const config::SavingPlan& plan, const std::vector<NamedValue>& metrics);

// After an evaluation after step `step`: whether it is the best so far. A NaN never is.
bool see_metric(BestCheckpoint& best, const config::SavingPlan& plan, double metric, std::int64_t step);

// Before a checkpoint of step `step` is written to `output_dir`: which one is the best.
void note_saved(BestCheckpoint& best, const base::fs::path& output_dir, std::int64_t step);

}  // namespace hone::train
