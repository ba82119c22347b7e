// rank_pattern, alpha_pattern, layers_to_transform, layers_pattern, lora_modules_to_save: options of PEFT's LoraConfig
// that are mappings or lists of numbers, or belong to others.
#pragma once

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// Into the plan. UserError for a rank that is none, and for combinations that PEFT refuses.
void finish_adapter_parts(Plan& plan, const Settings& settings);

}  // namespace hone::config
