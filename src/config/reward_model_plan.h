// The part of a plan that reward has beyond sft.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// Written back, so that plan.yaml shows what is used. UserError for lora_modules_to_save that names a module
// other than the score head.
void resolve_reward_model(Settings& settings);

// Of resolved settings. Adds a line to `notes` for what is set and has no effect.
RewardModelPlan make_reward_model_plan(const Settings& settings, std::vector<std::string>& notes);

}  // namespace hone::config
