// The chat template of another model's tokenizer (chat_template_path with a folder).
#pragma once

#include "base/file.h"
#include "text/tokenizer.h"

namespace hone::text {

// trl/chat_template_utils.py, clone_chat_template (TRL 1.16): the template and the end-of-sequence token of the
// tokenizer in `folder`. TRL also adds the tokens of `folder` that `tokenizer` lacks, as new rows of the embedding:
// such a folder is a UserError that names them. Unlike TRL, the embedding keeps its rows where their number is not a
// multiple of 64 at or above the vocabulary's.
void clone_chat_template(const base::fs::path& folder, Tokenizer& tokenizer);

}  // namespace hone::text
