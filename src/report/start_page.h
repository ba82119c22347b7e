// What a run is about to do, before step 1: what is trained, what the data are, one example with its targets
// marked, the memory by segment, which layer form and recompute level run and why. Of GRPO and RLOO: prompts,
// what is sampled a step, rewards and loss.
#pragma once

#include <string>

#include "report/terminal.h"
#include "train/step_facts.h"

namespace hone::report {

// Several lines, ending in a newline. Without color the targets stand between "⟦" and "⟧".
std::string start_page(const train::StartFacts& facts, const Terminal& terminal);

}  // namespace hone::report
