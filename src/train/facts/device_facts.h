// Where a run is, when that is not the CPU: lines of the start page.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"
#include "model/causal_lm.h"
#include "train/facts/step_facts.h"

namespace hone::train {

// Empty on the CPU.
DeviceFacts device_facts(const model::CausalLm& model, const config::Plan& plan);

// What of such a model has no form in the table of GPUs (ops/backend/cuda) and takes the reference, which is right and
// slow. `linear`: the dtype of its linears; `plan`: of the run, which may share prompts.
std::vector<std::string> reference_forms(const model::ModelConfig& model, at::ScalarType linear,
                                         const config::Plan& plan);

}  // namespace hone::train
