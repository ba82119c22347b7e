// What the start page says of how rows reach the model, where a person may have meant something else.
#pragma once

#include <string>

#include "train/open_run.h"

namespace hone::train {

// Into run.start.notes. Texts of prompts on a model with a chat template: the template is not used, and make_conversation would use it.
void note_plain_texts(OpenedRun& run);
// Rows of `count` conversations whose roles are ShareGPT's (human, gpt), as TRL leaves them: most templates pass over such turns.
void note_sharegpt_roles(OpenedRun& run, std::int64_t count);

}  // namespace hone::train
