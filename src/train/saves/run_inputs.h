// Every file and folder that a run reads, with the option that names it.
#pragma once

#include <vector>

#include "base/files/apart.h"
#include "config/plan.h"

namespace hone::train {

// Model, tokenizer, adapters, rows, templates, rewards, judges, prompts, rollouts; of an adapter among them
// its base too. Without a checkpoint to resume from: of output_dir it is the run's own.
std::vector<base::ReadPlace> run_inputs(const config::Plan& plan);

// UserError when the run would write over, or remove, something that it reads (base/files/apart.h).
void require_apart_from_inputs(const config::Plan& plan);

}  // namespace hone::train
