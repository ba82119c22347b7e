// Mappings of keyword arguments for transformers and Accelerate: each key becomes an option, has no effect here, or
// is refused.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"

namespace hone::config {

// model_init_kwargs, the arguments of from_pretrained (and in it quantization_config): the keys that are options are
// set, the mapping is emptied. Returns a note for each key without effect. UserError for another key, and for a value
// that an option has otherwise.
std::vector<std::string> apply_init_kwargs(Settings& settings);

// UserError for what accelerator_config or parallelism_config would change.
void check_accelerate(const Settings& settings);

}  // namespace hone::config
