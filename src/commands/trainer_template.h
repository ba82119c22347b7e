// A trainer's own text of conversations beside the model's template, for `hone check` of its file.
#pragma once

#include "config/others/other_run.h"
#include "config/plan.h"

namespace hone::commands {

// Renders the first 64 conversations by both and prints: equal, or in how many rows they differ with the first difference
// and what a server will render; where the texts are equal, what is trained in each. Says what is not compared: no text
// of that name is known, the rows are no conversations, or the tokenizer has no template. Nothing where the file names
// no text. `plan` has its rows here.
void print_trainer_template(const config::OtherRun& run, const config::Plan& plan);

}  // namespace hone::commands
