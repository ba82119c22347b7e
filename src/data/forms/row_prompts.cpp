#include "data/forms/row_prompts.h"

#include <limits>
#include <utility>

#include "base/error.h"
#include "data/forms/preferences.h"
#include "data/forms/rows.h"

namespace hone::data {

using base::Json;

namespace {

// Of messages the last one's text.
Json text_of(const Json& value) {
  if (!value.is_array()) return value;
  if (value.empty() || !value.back().is_object()) return nullptr;
  const Json content = value.back().value("content", Json());
  return content.is_string() ? content : Json();
}

PromptRow of_pair(Json row, const std::string& where) {
  PreferenceRow pair{
      .prompt = row.value("prompt", Json()), .chosen = row["chosen"], .rejected = row["rejected"]};
  const bool repeats =
      pair.chosen.is_array() && pair.prompt.is_string();  // data/forms/preferences.h, kExtractMixed
  const bool one_kind = (pair.chosen.is_string() && pair.rejected.is_string()) ||
                        (pair.chosen.is_array() && pair.rejected.is_array());
  if (!one_kind) {
    throw base::UserError(
        {.where = where,
         .expected = "chosen and rejected as texts, or as messages",
         .found = std::string(pair.chosen.type_name()) + " and " + pair.rejected.type_name()});
  }
  if (pair.prompt.is_null() || repeats) extract_prompt(pair, where);
  row["chosen"] = text_of(pair.chosen);
  row["rejected"] = text_of(pair.rejected);
  row.erase("prompt");
  return {.prompt = std::move(pair.prompt), .columns = std::move(row), .where = where};
}

PromptRow of_prompt_and_completion(Json row, const std::string& where) {
  PromptRow out{.prompt = row["prompt"], .columns = {}, .where = where};
  row["completion"] = text_of(row["completion"]);
  row.erase("prompt");
  out.columns = std::move(row);
  return out;
}

PromptRow of_messages(Json row, const std::string& where) {
  Json messages = std::move(row["messages"]);
  row.erase("messages");
  if (messages.size() > 1 && messages.back().value("role", "") == "assistant") {
    row["completion"] = text_of(messages);
    messages.erase(messages.size() - 1);
  }
  return {.prompt = std::move(messages), .columns = std::move(row), .where = where};
}

[[noreturn]] void throw_no_prompt(const std::string& where, const std::string& found) {
  throw base::UserError(
      {.where = where,
       .expected = "rows with a prompt: prompt and completion, messages, or chosen and rejected",
       .found = "a row of only " + found,
       .cause = "where in it a prompt ends, the row does not say",
       .fix = "write the prompts themselves in sample_prompts, or name an eval_dataset that has prompts"});
}

}  // namespace

bool are_conversations(const RowSource& source, const std::string& text_field) {
  Rows one;
  one.text_field = text_field;
  bool out = false;
  source.for_first(1, one.names, [&](Json row, int number) {
    const bool is_pair = row.contains("chosen") && row.contains("rejected");
    if (is_pair) {
      out = row["chosen"].is_array();
      return;
    }
    add_row(std::move(row), number, one);
    out = one.conversational;
  });
  return out;
}

std::vector<PromptRow> read_row_prompts(const RowSource& source, const std::string& text_field,
                                        std::int64_t most) {
  std::vector<PromptRow> out;
  Rows one;  // the row that is being read; its names and its first row's form are those of all
  one.path = source.path();
  one.text_field = text_field;
  const auto take = [&](Json row, int number) {
    const std::string where = one.names.of(number);
    if (row.contains("chosen") && row.contains("rejected")) {
      out.push_back(of_pair(std::move(row), where));
      return;
    }
    add_row(std::move(row), number, one);
    Json checked = std::move(one.rows.back());
    one.rows.clear();
    one.lines.clear();
    if (one.form == RowForm::kText) throw_no_prompt(where, "a text, in the column '" + text_field + "'");
    if (one.form == RowForm::kTokens) throw_no_prompt(where, "tokens, in the column 'input_ids'");
    out.push_back(one.form == RowForm::kMessages ? of_messages(std::move(checked), where)
                                                 : of_prompt_and_completion(std::move(checked), where));
  };
  source.for_first(most > 0 ? most : std::numeric_limits<std::int64_t>::max(), one.names, take);
  return out;
}

}  // namespace hone::data
