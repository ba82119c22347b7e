// Rows of other forms as TRL's, by a run's options. In this order:
//
//   dataset_columns    {question: prompt, answer: completion}: columns get other names
//   row_format alpaca  instruction, input, output -> prompt, completion, with the text of Stanford Alpaca's train.py
//                      (github.com/tatsu-lab/stanford_alpaca, PROMPT_DICT); the completion follows "### Response:" at once.
//                      With make_conversation: a user's turn of instruction and, on the next line, input; `history`
//                      ([[instruction, output], ...]) as the turns before it, `system` as the first
//   row_format sharegpt  lists of {from, value} or {role, content} in conversations, messages, prompt, completion, chosen and
//                      rejected -> role, content; human and user become user; gpt and assistant, assistant; system and tool stay.
//                      conversations becomes messages; a text in `system` its first turn. Other roles are an error
//   row_format openai  content given as a list of parts {"type": "text", "text": ...} -> one text, the parts' own one after another, as
//                      the templates of models that know parts print them; other kinds of parts are an error
//   prompt_template    "Question: {question}\nAnswer:" -> prompt
//   text_template      the same -> the column dataset_text_field; the row's other columns are left out
//   make_conversation  texts in prompt, completion, chosen and rejected -> a turn of the user and one of the assistant
//   system_prompt      the first turn of prompt, else of messages, unless there is a system turn; a text becomes a conversation
#pragma once

#include <string>

#include "base/json.h"
#include "base/row_mapping.h"
#include "data/files/row_columns.h"

namespace hone::data {

// The row as `mapping` says, but for its function (data/files/row_function.h). `first` row of its data set: a column that dataset_columns
// names has to be there; a later row may lack it, which is null in datasets. UserError, naming `where`: a column that is not there
// (naming those that are), a name that is taken, a value of another type, roles and parts as above, a template that names a column
// which is not there. `effects`, where it is given, learns which options changed the row.
base::Json map_row(base::Json row, const base::RowMapping& mapping, const std::string& where, bool first,
                   MapEffects* effects = nullptr);

// `text` with "{column}" replaced by the column's text; "{{" and "}}" are braces. Numbers and booleans are as
// Python's str.format prints them; null is empty.
std::string fill_template(const std::string& text, const base::Json& row, const std::string& where,
                          const std::string& option);

}  // namespace hone::data
