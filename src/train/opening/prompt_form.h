// How a plan's options make prompts of rows (data/forms/prompts.h).
#pragma once

#include "config/plan.h"
#include "data/forms/prompts.h"

namespace hone::train {

data::PromptForm prompt_form(const config::Plan& plan);

}  // namespace hone::train
