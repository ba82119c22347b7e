// The rank and the scale of each module: PEFT's r, lora_alpha, rank_pattern and alpha_pattern.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adapters/lora.h"

namespace hone::adapters {

// Returns the rank and alpha of each of `modules`, which are all that are adapted. The first pattern that
// matches a module counts (PEFT 0.21.2 get_pattern_key: the whole name, or its end after a dot). `strict`:
// UserError for a pattern that matches none of them, which PEFT ignores with a warning.
std::vector<ModuleRank> ranks_of(const LoraConfig& config, const std::vector<std::string>& modules,
                                 bool strict);

// The config with patterns that adapter_config.json can hold: PEFT writes them in alphabetical order and reads them
// in that order, in which another pattern may come first. Where that would change a rank or an alpha, patterns become
// whole names.
LoraConfig with_recorded_patterns(LoraConfig config, const std::vector<std::string>& modules);

}  // namespace hone::adapters
