// A teacher's distributions are over its own tokens: token i has to be the same text in both vocabularies.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace hone::train {

struct OpenedRun;  // train/opening/open_run.h

// UserError that names the first token which differs. `where` is an option, `ours` and `theirs` name the models.
void require_same_vocabulary(const text::Tokenizer& own, const text::Tokenizer& other,
                             const std::string& where, const std::string& ours, const std::string& theirs);

// The same of a run whose reference is its teacher, before any weight is read.
void require_teachers_vocabulary(const OpenedRun& run);

}  // namespace hone::train
