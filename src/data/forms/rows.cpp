#include "data/forms/rows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/suggest.h"
#include "data/files/describe_row.h"
#include "data/files/file_text.h"

namespace hone::data {
namespace {

using base::Json;
using base::UserError;

bool is_messages(const Json& value) {
  return value.is_array();
}

[[noreturn]] void throw_wrong_type(const std::string& where, const std::string& column,
                                   const std::string& expected, const Json& found) {
  throw UserError({.where = where,
                   .expected = "column '" + column + "' to be " + expected,
                   .found = a_type(found),
                   .cause = "",
                   .fix = "correct this row, or remove it"});
}

// ---- the form of a row

struct Form {
  RowForm form;
  bool conversational;
  bool operator==(const Form&) const = default;
};

std::string name_of(const Form& form, const std::string& text_field) {
  if (form.form == RowForm::kText) return "text (column '" + text_field + "')";
  if (form.form == RowForm::kMessages) return "messages";
  if (form.form == RowForm::kTokens) return "tokens (column 'input_ids')";
  return form.conversational ? "prompt and completion, as messages" : "prompt and completion, as strings";
}

[[noreturn]] void throw_no_column(const Json& row, const std::string& where, const std::string& text_field) {
  const std::vector<std::string> there = columns_of(row);
  std::string missing;
  if (row.contains("prompt")) missing = "completion";
  if (row.contains("completion")) missing = "prompt";
  const std::string wanted = missing.empty() ? text_field : missing;
  const std::string hint = base::did_you_mean(wanted, there);
  throw UserError(
      {.where = where,
       .expected = missing.empty() ? "a column '" + text_field +
                                         "' (dataset_text_field), 'messages', or 'prompt' and 'completion'"
                                   : "a column '" + missing + "' for the other half of the pair",
       .found = "columns: " + join(there) + "." + hint,
       .cause = "the data has another format than SFT needs",
       .fix =
           row.contains("instruction") && row.contains("output")
               ? "set row_format: alpaca, which makes prompt and completion of instruction, input and output"
           : missing.empty() ? "name it with dataset_text_field, or columns as the ones that are needed with "
                               "dataset_columns: {question: prompt, answer: completion}"
                             : "add the column, name one so with dataset_columns, or use one 'text' column"});
}

Form form_of(const Json& row, const std::string& where, const std::string& text_field) {
  if (row.contains("input_ids")) return {RowForm::kTokens, false};
  if (row.contains("prompt") && row.contains("completion")) {
    return {RowForm::kPromptCompletion, is_messages(row["prompt"])};
  }
  if (row.contains("messages")) return {RowForm::kMessages, true};
  if (row.contains(text_field)) return {RowForm::kText, false};
  throw_no_column(row, where, text_field);
}

// ---- the values of a row

// from/value -> role/content, the new keys at the end as Python's dict.pop leaves them.
void rename_key(Json& message, const char* from, const char* to) {
  if (!message.is_object() || !message.contains(from)) return;
  Json value = std::move(message[from]);
  message.erase(from);
  message[to] = std::move(value);
}

// `conversations` -> `messages`.
void convert_conversations(Json& row) {
  if (!row.contains("conversations") || row.contains("messages") || !is_messages(row["conversations"]))
    return;
  for (Json& message : row["conversations"]) {
    rename_key(message, "from", "role");
    rename_key(message, "value", "content");
  }
  rename_key(row, "conversations", "messages");
}

void check_message(const Json& message, const std::string& where, const std::string& place) {
  if (!message.is_object()) throw_wrong_type(where, place, "an object with 'role' and 'content'", message);
  const std::string keys = "keys: " + join(columns_of(message));
  const bool sharegpt = message.contains("from") && message.contains("value");
  const std::string cause = sharegpt ? "from/value messages belong in a column named 'conversations'" : "";
  if (!message.contains("role")) {
    throw UserError({.where = where,
                     .expected = "a 'role' in " + place,
                     .found = keys,
                     .cause = cause,
                     .fix = "write each message as {\"role\": ..., \"content\": ...}"});
  }
  if (!message["role"].is_string()) throw_wrong_type(where, place + ".role", "a string", message["role"]);
  if (!message.contains("content") && !message.contains("tool_calls")) {
    throw UserError({.where = where,
                     .expected = "a 'content' (or tool_calls) in " + place,
                     .found = keys,
                     .cause = cause,
                     .fix = "write each message as {\"role\": ..., \"content\": ...}"});
  }
  const Json nothing;
  const Json& content = message.contains("content") ? message["content"] : nothing;
  if (!content.is_null() && !content.is_string() && !content.is_array()) {
    throw_wrong_type(where, place + ".content", "a string, a list or null", content);
  }
}

}  // namespace

void check_messages(const Json& row, const std::string& column, const std::string& where) {
  const Json& messages = row[column];
  if (!messages.is_array() || messages.empty()) {
    throw_wrong_type(where, column, "a list of at least one message", messages);
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    check_message(messages[i], where, column + "[" + std::to_string(i) + "]");
  }
}

std::string columns_found(const Json& row, const std::string& wanted) {
  const std::vector<std::string> there = columns_of(row);
  if (there.empty()) return "no columns";
  return "the columns " + join(there) + "." + base::did_you_mean(wanted, there);
}

void check_template_columns(Json& row, const std::string& where) {
  if (row.contains("tools") && row["tools"].is_string()) {
    row["tools"] = base::parse_json(row["tools"].get<std::string>(), where + " column 'tools'");
  }
  if (row.contains("tools") && !row["tools"].is_null() && !row["tools"].is_array()) {
    throw_wrong_type(where, "tools", "a list of tools, or null", row["tools"]);
  }
  if (!row.contains("chat_template_kwargs")) return;
  const Json& extra = row["chat_template_kwargs"];
  if (!extra.is_null() && !extra.is_object()) {
    throw_wrong_type(where, "chat_template_kwargs", "an object, or null", extra);
  }
}

namespace {

void check_string(const Json& row, const std::string& column, const std::string& where) {
  if (!row[column].is_string()) throw_wrong_type(where, column, "a string", row[column]);
}

void check_values(Json& row, const Form& form, const std::string& where, const std::string& text_field) {
  if (form.form == RowForm::kTokens) return;  // token_row() checks them
  if (form.form == RowForm::kText) return check_string(row, text_field, where);
  if (form.form == RowForm::kMessages) {
    check_messages(row, "messages", where);
  } else if (form.conversational) {
    check_messages(row, "prompt", where);
    check_messages(row, "completion", where);
  } else {
    check_string(row, "prompt", where);
    return check_string(row, "completion", where);
  }
  check_template_columns(row, where);
}

// ---- the file

Json parse_row(std::string_view line, const std::string& file, int number) {
  Json row = base::parse_python_json(line, file, number);
  if (row.is_object()) return row;
  throw UserError({.where = file + ":" + std::to_string(number),
                   .expected = "one JSON object on the line",
                   .found = a_type(row),
                   .cause = row.is_array() ? "the file is one JSON list, not JSON Lines" : "",
                   .fix = "write one {...} per line"});
}

}  // namespace

void add_row(Json row, int number, Rows& out) {
  const std::string where = out.names.of(number);
  convert_conversations(row);
  const bool is_first = !std::exchange(out.begun, true);
  if (is_first) {
    refuse_columns(row, sft_columns(), where);
    const Form first = form_of(row, where, out.text_field);
    out.form = first.form;
    out.conversational = first.conversational;
    out.first_where = where;
    if (first.form == RowForm::kTokens) out.token_columns = token_columns(row);
  }
  const Form expected{out.form, out.conversational};
  if (!is_first) {
    const Form found = form_of(row, where, out.text_field);
    if (found != expected) {
      throw UserError({.where = where,
                       .expected = "a row like the first one (" + out.first_where +
                                   "): " + name_of(expected, out.text_field),
                       .found = name_of(found, out.text_field),
                       .cause = "rows of different forms in one file",
                       .fix = "write all rows in the same form"});
    }
  }
  check_values(row, expected, where, out.text_field);
  out.rows.push_back(std::move(row));
  out.lines.push_back(number);
}

void for_each_row(std::string_view text, const base::fs::path& path,
                  const std::function<void(base::Json, int)>& take) {
  text = without_byte_order_mark(text, path);
  int number = 0;
  bool any = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    any = true;
    take(parse_row(line, path.string(), number), number);
  }
  if (!any) {
    throw UserError({.where = path.string(),
                     .expected = "at least one row",
                     .found = number == 0 ? "an empty file" : "only blank lines",
                     .cause = "an export or download that produced nothing",
                     .fix = "write one JSON object per line"});
  }
}

Rows parse_rows(std::string_view text, const base::fs::path& path, const std::string& text_field) {
  Rows out;
  out.text_field = text_field;
  return parse_all(text, path, std::move(out));
}

Rows read_rows(const RowSource& source, const std::string& text_field) {
  Rows out;
  out.text_field = text_field;
  return read_all(source, std::move(out));
}

Rows read_first_rows(const RowSource& source, const std::string& text_field, std::int64_t most) {
  Rows out;
  out.path = source.path();
  out.text_field = text_field;
  source.for_first(most, out.names, [&out](Json row, int number) { add_row(std::move(row), number, out); });
  return out;
}

}  // namespace hone::data
