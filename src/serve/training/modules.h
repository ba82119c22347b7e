// Which linears of a model a client's flags name.
#pragma once

#include <string>
#include <vector>

#include "model/causal_lm.h"

namespace hone::serve {

struct LoraChoice;

// PEFT's target_modules, by the ends of names: attention's, the MLP's and the head. UserError for a rank out
// of range, for flags that name nothing, and for train_mlp of a model with experts.
std::vector<std::string> target_modules(const LoraChoice& choice, const model::CausalLm& model);

}  // namespace hone::serve
