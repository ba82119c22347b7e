// LoRA on the experts and routers of a model: PEFT 0.21.2's target_parameters, and what it makes of target_modules for models
// whose experts transformers 5 stacks (utils/transformers_weight_conversion.py, _convert_peft_config_moe).
#pragma once

#include <string>
#include <vector>

#include "adapters/lora.h"
#include "model/config/model_config.h"

namespace hone::adapters {

// The config as PEFT changes it: names of routers and of projections of experts move from target_modules to
// target_parameters; gate and up become one parameter, with twice the rank and alpha. "all-linear" names all of them too, and
// a regular expression becomes the last parts of the names that it matches. The same for other models, and a second time.
// UserError for one of gate and up without the other.
LoraConfig with_expert_targets(LoraConfig config, const model::ModelConfig& model, bool strict);

// Returns what target_parameters selects, as names of targets: a router's module, or a stacked parameter
// ("model.layers.0.mlp.experts.gate_up_proj"). UserError (`strict`) for an entry that matches nothing, and
// for what PEFT refuses on parameters: dropout, DoRA, PiSSA.
std::vector<std::string> parameter_targets(const LoraConfig& config, const model::ModelConfig& model,
                                           bool strict);

// The module by which PEFT's files call a target; of the two parameters of stacked experts the first is in a base_layer where
// both have a LoRA.
std::string module_in_files(const std::string& target, const std::vector<std::string>& targets);

// UserError (with `where`) for an adapter of experts or routers, which `what` does not have: "to put it below another one".
void require_no_parameters(const LoraConfig& config, const std::string& where, const std::string& what);

}  // namespace hone::adapters
