// Readers of rows of every form ask tokenizer and template with these functions; errors name the row.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

using RowName = std::function<std::string()>;  // "train.jsonl:12"; asked for when something is wrong

// call(), whose UserErrors then begin with the row.
template <typename Call>
auto with_row_context(const RowName& where, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const base::UserError& error) {
    base::ErrorText text = error.text();
    text.where = where() + ", " + text.where;
    throw base::UserError(text);
  }
}

// How messages name the two kinds of a column.
inline const char* kind_of(const base::Json& value) {
  return value.is_array() ? "a list of messages" : "text";
}

// UserError (DATA-10) for an id that the model's embedding has no row for. vocab_size 0: nothing is checked.
void check_token_ids(std::span<const std::int32_t> ids, std::int64_t vocab_size,
                     const text::Tokenizer& tokenizer, const RowName& where);

// Rows with completions: messages need a template (null: none), text an EOS to append. `by_option`: the
// method has the options chat_template_path and eos_token, and the advice names them.
void require_template_or_eos(const base::fs::path& file, bool conversational,
                             const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
                             bool by_option);

}  // namespace hone::data
