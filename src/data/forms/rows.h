// SFT's rows, checked: their form, and the place of each in its file.
//
// Forms, as TRL names them (docs: dataset formats), by the columns of the first row, the first that is there:
//   input_ids             tokenized already (data/forms/token_row.h)
//   prompt + completion   both strings, or both lists of messages
//   messages              a list of messages; `conversations` is read as messages, and its from/value keys
//                         become role/content (trl maybe_convert_to_chatml: values are unchanged, "gpt" too)
//   text                  one string, in the column dataset_text_field
// A message is {"role": string, "content": string | list | null, ...}; content may be absent beside
// tool_calls. Optional columns for templates: `tools` (list, or the text of one) and `chat_template_kwargs`
// (object). What becomes of other columns says data/files/row_columns.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "data/files/row_source.h"
#include "data/forms/token_row.h"

namespace hone::data {

enum class RowForm { kText, kPromptCompletion, kMessages, kTokens };

// All rows of a data set, or a block of them.
struct Rows : NamedRows {
  RowForm form = RowForm::kText;
  TokenColumns token_columns = {};  // of kTokens
  std::string text_field = "text";
  std::vector<base::Json> rows;  // tools parsed; conversations already called messages
  std::string first_where = {};  // the data set's first row: "train.jsonl:1"
};

// UserError for: what data/files/row_source.h says, a needed column absent (naming those there), a column of the wrong
// type, rows of mixed form, a message without role or content.
Rows read_rows(const RowSource& source, const std::string& text_field);
// At most the first `most` rows.
Rows read_first_rows(const RowSource& source, const std::string& text_field, std::int64_t most);

// One row to the end of `out`, checked; `number` is known to out.names. The first one of a data set says the form of all.
void add_row(base::Json row, int number, Rows& out);

// The same from JSON Lines that are already in memory; `path` only names them. Blank lines, a byte order mark and
// CRLF are accepted.
Rows parse_rows(std::string_view text, const base::fs::path& path, const std::string& text_field);

// ---- for other readers of rows (data/forms/prompts.h)

// take(row, line) for each row of JSON Lines in memory, an object, in order.
void for_each_row(std::string_view text, const base::fs::path& path,
                  const std::function<void(base::Json, int)>& take);
// All of them. `out`: without rows.
template <typename RowsOfForm>
RowsOfForm parse_all(std::string_view text, const base::fs::path& path, RowsOfForm out) {
  out.path = path;
  out.names = RowNames(path);
  for_each_row(text, path, [&out](base::Json row, int number) { add_row(std::move(row), number, out); });
  if constexpr (requires { close_block(out); }) close_block(out);
  return out;
}
// That `column` is a list of at least one message; `where` names the row.
void check_messages(const base::Json& row, const std::string& column, const std::string& where);
// "the columns a, b. Did you mean 'b'?" or "no columns", where `wanted` is not among them.
std::string columns_found(const base::Json& row, const std::string& wanted);
// That `tools` and `chat_template_kwargs` are what a template takes; tools given as text are parsed.
void check_template_columns(base::Json& row, const std::string& where);

}  // namespace hone::data
