// Rows of prompts: for generation, and for GRPO and RLOO, whose rewards read the other columns.
//
//   {"prompt": "What is 2 + 3?", "answer": "5"}
//   {"prompt": [{"role": "user", "content": "What is 2 + 3?"}], "answer": "5"}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "data/files/row_source.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

// The `prompt` column of each row of a file, or of JSON Lines from a pipe. UserError as data/files/row_file.h says, and
// for a row without `prompt` (naming the columns there), a prompt of another type, an empty file.
std::vector<base::Json> read_prompts(const base::fs::path& path);

struct PromptRow {
  base::Json prompt;   // text, or a list of messages; one kind in a file
  base::Json columns;  // object: the row's other columns, for rewards; the same names, in the same order, in
                       // every row
  std::string where;   // "train.jsonl:12", for messages
  base::Json not_for_rewards =
      base::Json::object();  // its `completion` and `completion_ids`, which an environment's reset gets
};

// Rows of GRPO and RLOO. What a row lacks that another has is null, as datasets fills it in. `completion` and
// `completion_ids` are no columns: TRL hands those to no reward. `tools` (parsed when text) and
// `chat_template_kwargs` are both: columns, and the template's.
// UserError as read_prompts, and for prompts of both kinds, and messages as data/forms/rows.h checks them.
std::vector<PromptRow> read_prompt_rows(const RowSource& source);

// How a prompt is made of a row, as open-r1's make_conversation does: the text of `column` (empty: prompt) becomes a
// user's turn, after a system turn if there is one. Messages stay, and get the system turn unless they have one.
struct PromptForm {
  std::string system;
  std::string column;
  // Rows without `prompt` take the user's turn from this column, and this system turn where `system` is empty.
  // Where the column is empty, such rows are a UserError.
  std::string column_without_prompt = {};
  std::string system_without_prompt = {};
  // Rows without `prompt` have `messages`, whose last turn is the row's completion, as in TRL's
  // GKDTrainer. Rows whose prompt comes from `column` or column_without_prompt stay as they are.
  bool splits_messages = false;

  bool as_it_is() const { return system.empty() && column.empty(); }
  // Says whether a row has no prompt of its own and gets one of column_without_prompt.
  bool stands_in(const base::Json& row) const;
};
// Writes the row's `prompt`, where the form makes one. UserError naming `where` for a column that is not there or is
// neither text nor messages.
void make_prompt(base::Json& row, const PromptForm& form, const std::string& where);
// The same rows, or a block of them (data/files/row_stream.h). A block has the columns of all rows so far.
struct PromptRows : NamedRows {
  PromptForm form = {};
  std::vector<PromptRow> rows = {};
  std::string first_where = {};               // the first row of all
  base::Json columns = base::Json::object();  // their names
};
void add_row(base::Json row, int number, PromptRows& to);
void close_block(PromptRows& rows);
PromptRows prompt_rows(const PromptForm& form);  // none

// `seen`, where it is given, gets what was seen of the rows (data/files/row_columns.h).
std::vector<PromptRow> read_prompt_rows(const RowSource& source, const PromptForm& form,
                                        SeenRows* seen = nullptr);

struct TokenizedPrompt {
  std::vector<std::int32_t> ids;
  std::string text;  // what the model reads: a conversation as its template renders it
};

// As TRL 1.16's GRPOTrainer._tokenize_prompts: text with the special tokens that the tokenizer adds (BOS); a
// conversation rendered with add_generation_prompt, the last message being whose it may (an assistant's turn
// is closed, not continued), and encoded without adding any. `template_kwargs` (object or null) is the option
// chat_template_kwargs; a row's own column wins key by key. TRL gives the template no columns of the row;
// here `tools` and `chat_template_kwargs` reach it as in SFT, an empty list of tools as none. `vocab_size` >
// 0: ids at or above it are a UserError (DATA-10), before anything is generated. UserError too for a prompt
// without tokens and for messages without a chat template (nullptr).
std::vector<TokenizedPrompt> tokenize_prompts(const std::vector<PromptRow>& rows,
                                              const text::Tokenizer& tokenizer,
                                              const text::ChatTemplate* chat_template,
                                              const base::Json& template_kwargs, std::int64_t vocab_size = 0);

}  // namespace hone::data
