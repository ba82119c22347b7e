// The chat template of another model's tokenizer (chat_template_path with a folder).
#pragma once

#include <cstdint>
#include <vector>

#include "base/files/file.h"
#include "text/tokenizer.h"

namespace hone::text {

// trl/chat_template_utils.py, clone_chat_template (TRL 1.16): the template and the end-of-sequence token of
// the tokenizer in `folder`, and its added tokens that `tokenizer` lacks, behind its vocabulary. Returns
// their ids: the model needs a row for each. Unlike TRL, nothing is done to the embedding's rows where they
// are enough.
std::vector<std::int64_t> clone_chat_template(const base::fs::path& folder, Tokenizer& tokenizer);

// TRL resizes the embedding to a multiple of so many rows, and gives a token to each of them.
constexpr std::int64_t kRowsOfCloned = 64;

// Tokens "<extra_id_0>", ... up to `rows` tokens, as TRL adds them. Returns their ids.
std::vector<std::int64_t> fill_vocabulary(std::int64_t rows, Tokenizer& tokenizer);

}  // namespace hone::text
