// Prompt-only JSONL, for generation: one prompt a row, a string or a list of messages.
#pragma once

#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace hone::data {

// The `prompt` column of each row. Blank lines, a byte order mark and CRLF are accepted. UserError for a line
// that does not parse, a row without `prompt` (naming the columns there), a prompt of another type, an empty
// file.
std::vector<base::Json> read_prompts(const base::fs::path& path);

}  // namespace hone::data
