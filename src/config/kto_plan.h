// The part of a plan that kto has beyond sft: TRL's rules for its losses.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// Written back, so that plan.yaml shows what is used.
void resolve_kto(Settings& settings);

// Of resolved settings. Adds a line to `notes` for what is set and has no effect. UserError where KTOTrainer
// raises: loss_type kto in another order than sequential, or with one row a micro-batch.
KtoPlan make_kto_plan(const Settings& settings, std::vector<std::string>& notes);

}  // namespace hone::config
