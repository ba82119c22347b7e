// The prompts of rows that a method trains on or evaluates, whatever their form, for completions beside the training.
//
//   prompt, completion            the prompt; `completion` stays a column, as text
//   messages                      all turns before the last one, if that is the assistant's: its text is then the column `completion`
//   prompt, chosen, rejected      the prompt; `chosen` and `rejected` stay columns, as text
//   chosen, rejected              what the two begin with (data/forms/preferences.h); the rest are the columns
//
// The text of messages is that of the last one. Other columns stay as they are, for rewards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/files/row_source.h"
#include "data/forms/prompts.h"

namespace hone::data {

// Returns whether the rows are conversations, judged by the first one. UserError: what read_rows says.
bool are_conversations(const RowSource& source, const std::string& text_field);

// At most the first `most` rows; 0: all. UserError: what read_rows says, and for rows of only a text, which have no prompt.
std::vector<PromptRow> read_row_prompts(const RowSource& source, const std::string& text_field,
                                        std::int64_t most);

}  // namespace hone::data
