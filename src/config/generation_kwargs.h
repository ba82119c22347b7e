// generation_kwargs: what TRL hands to transformers' GenerationConfig beside its own options.
#pragma once

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// Its keys win over the options of the same name, as in TRL. UserError for keys that hone does not have, and
// for a temperature or max_new_tokens that differs from the option: TRL would then train at another than it
// samples. Checks what the two say together (min_new_tokens, stop_strings).
void apply_generation_kwargs(const Settings& settings, PolicyPlan& plan);

}  // namespace hone::config
