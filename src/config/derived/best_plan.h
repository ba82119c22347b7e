// save_strategy best, load_best_model_at_end, metric_for_best_model, greater_is_better: transformers 5.23
// TrainingArguments.__post_init__.
#pragma once

#include "config/settings.h"

namespace hone::config {

// Fills in the metric, with its prefix eval_, and its direction where something needs them.
void resolve_best(Settings& settings);
// UserError for strategies that do not go together, and for a metric of none of several evaluation sets.
void check_best(const Settings& settings);

}  // namespace hone::config
