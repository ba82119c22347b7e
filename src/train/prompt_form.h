// How a plan's options make prompts of rows (data/prompts.h).
#pragma once

#include <string>

#include "config/plan.h"
#include "data/prompts.h"

namespace hone::train {

// The system turn of DeepSeek-R1-Zero (arXiv 2501.12948, Table 1), as the scripts of X-R1 and of the first open-r1
// have it. The reward `format` wants what it asks for.
const std::string& r1_system_turn();

data::PromptForm prompt_form(const config::Plan& plan);

}  // namespace hone::train
