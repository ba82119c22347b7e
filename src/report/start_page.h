// The page before step 1: trained parameters, data, one example with its targets marked, memory by segment,
// layer form and recompute level with the reason. For GRPO and RLOO: prompts, sampling per step, rewards and
// loss.
#pragma once

#include <string>

#include "report/terminal.h"
#include "train/step_facts.h"

namespace hone::report {

// Several lines, ending in a newline. Without color the targets are marked with "⟦" and "⟧".
std::string start_page(const train::StartFacts& facts, const Terminal& terminal);

}  // namespace hone::report
