// use_peft false: every weight of the model is trained, or those that Spectrum's patterns name.
#pragma once

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// Before the fields are filled: spectrum_config_path becomes unfrozen_parameters, so that plan.yaml has the patterns
// and not a file that may change.
void resolve_full(Settings& settings);

// What full fine-tuning excludes (a conflict) and does not read (a note); and what only it reads.
void finish_full(Plan& plan, const Settings& settings);

}  // namespace hone::config
