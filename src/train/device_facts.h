// Where a run is, when that is not the CPU: lines of the start page.
#pragma once

#include "model/causal_lm.h"
#include "train/step_facts.h"

namespace hone::train {

// Empty on the CPU.
DeviceFacts device_facts(const model::CausalLm& model);

}  // namespace hone::train
