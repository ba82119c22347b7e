// generation_kwargs: what TRL passes to transformers' GenerationConfig in addition to its own options.
#pragma once

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// Its keys override the options of the same name, as in TRL. UserError for keys that hone does not have, and
// for a temperature or max_new_tokens that differs from the option: TRL would then train with a value other
// than the one it samples with. Checks the combination of both (min_new_tokens, stop_strings).
void apply_generation_kwargs(const Settings& settings, PolicyPlan& plan);

}  // namespace hone::config
