// Checks the options of the reference model against the others, and fills in its part of the plan.
#pragma once

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// ref_model_dtype, and what TRL's trainers refuse: sync_ref_model with an adapter, with precomputed log-probabilities, and
// without a reference.
void finish_reference(Plan& plan, const Settings& settings);

}  // namespace hone::config
