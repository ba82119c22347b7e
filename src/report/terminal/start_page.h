// The page before step 1: trained parameters, data, one example with its targets marked, memory by segment,
// layer form and recompute level with the reason. For GRPO and RLOO: prompts, sampling per step, rewards and
// loss.
#pragma once

#include <string>

#include "report/terminal/terminal.h"
#include "train/facts/step_facts.h"

namespace hone::report {

// Several lines, ending in a newline. Without color the targets are marked with "⟦" and "⟧". `examined`: an examination
// follows, so that rows that are cut or dropped are left to its verdicts.
std::string start_page(const train::StartFacts& facts, const Terminal& terminal, bool examined = false);

}  // namespace hone::report
