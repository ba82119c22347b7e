// The part of a plan that dpo has beyond sft: TRL's rules for its losses.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// What DPOConfig.__post_init__ resolves, written back, so that plan.yaml shows what is used. UserError for a
// loss_type that is none, and for loss_weights that are no numbers.
void resolve_preference(Settings& settings);

// Of resolved settings. Adds a line to `notes` for what is set and has no effect. UserError for what does not
// go together: where DPOTrainer raises, and where its formula divides by 0.
PreferencePlan make_preference_plan(const Settings& settings, std::vector<std::string>& notes);

}  // namespace hone::config
