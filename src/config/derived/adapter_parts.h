// rank_pattern, alpha_pattern, layers_to_transform, layers_pattern, lora_modules_to_save: options of PEFT's LoraConfig
// that are mappings or lists of numbers, or belong to others.
#pragma once

#include <cstdint>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// layers_to_transform: numbers from 0; empty: all. UserError for anything else.
std::vector<std::int64_t> layer_numbers(const Settings& settings);

// Into the plan. UserError for a rank that is none, and for combinations that PEFT refuses.
void finish_adapter_parts(Plan& plan, const Settings& settings);

}  // namespace hone::config
