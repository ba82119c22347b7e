#include "data/forms/prompts.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/suggest.h"
#include "data/forms/row_checks.h"
#include "data/forms/rows.h"

namespace hone::data {

using base::Json;
using base::UserError;

namespace {

// What data sets call the prompt when they do not call it `prompt`, in the order of trying.
constexpr std::array<std::string_view, 7> kOtherNames = {"question", "problem",  "instruction", "query",
                                                         "input",    "messages", "text"};

// A command that makes prompts of the rows, when it can be guessed which column they are in.
std::string how_to_rename(const Json& row, const std::string& file) {
  const auto* const name = std::find_if(kOtherNames.begin(), kOtherNames.end(),
                                        [&row](std::string_view each) { return row.contains(each); });
  if (name == kOtherNames.end()) return "rename the column that holds the prompt to 'prompt'";
  std::string value = "[{'role': 'user', 'content': r.pop('" + std::string(*name) + "')}]";
  if (*name == "text") value = "r.pop('text')";
  if (*name == "messages") value = "r.pop('messages')[:-1]";
  return "rename it; the other columns go to the rewards: python3 -c \"import json, sys; "
         "[print(json.dumps({'prompt': " +
         value + ", **r})) for r in map(json.loads, sys.stdin)]\" < " + file + " > prompts.jsonl";
}

[[noreturn]] void throw_no_prompt(const Json& row, const base::fs::path& path, const std::string& where) {
  throw UserError({.where = where,
                   .expected = "a column 'prompt': text, or a list of messages",
                   .found = columns_found(row, "prompt"),
                   .cause = row.contains("input_ids") || row.contains("prompt_ids")
                                ? "the rows are tokenized, and TRL reads such rows only in sft and reward"
                                : "",
                   .fix = how_to_rename(row, path.string())});
}

// The row's prompt, of the right type.
const Json& prompt_of(const Json& row, const base::fs::path& path, const std::string& where) {
  if (!row.contains("prompt")) throw_no_prompt(row, path, where);
  const Json& prompt = row.at("prompt");
  if (prompt.is_string() || prompt.is_array()) return prompt;
  throw UserError({.where = where + " prompt",
                   .expected = "a string, or a list of messages",
                   .found = prompt.type_name(),
                   .cause = "",
                   .fix = "write the prompt as text"});
}

void make_conversation(Json& row, const PromptForm& form, const std::string& where) {
  const std::string column = form.column.empty() ? "prompt" : form.column;
  const auto found = row.find(column);
  if (found == row.end()) {
    throw UserError({.where = where,
                     .expected = "a column '" + column + "', whose text becomes the prompt",
                     .found = columns_found(row, column),
                     .fix = "name one of them in dataset_prompt_column"});
  }
  Json prompt = Json::array();
  const bool messages = found->is_array();
  const bool has_system =
      messages && !found->empty() && (*found)[0].is_object() && (*found)[0].value("role", Json()) == "system";
  if (!form.system.empty() && !has_system) prompt.push_back({{"role", "system"}, {"content", form.system}});
  if (messages) {
    prompt.insert(prompt.end(), found->begin(), found->end());
  } else if (found->is_string()) {
    prompt.push_back({{"role", "user"}, {"content", *found}});
  } else {
    throw UserError({.where = where + " " + column,
                     .expected = "a string, or a list of messages",
                     .found = found->type_name(),
                     .fix = "name another column in dataset_prompt_column"});
  }
  row["prompt"] = std::move(prompt);
}

// {"messages": [.., last]} -> {"prompt": [..], "completion": [last]}
void split_messages(Json& row, const std::string& where) {
  const auto found = row.find("messages");
  if (row.contains("prompt") || found == row.end()) return;
  const bool fits = found->is_array() && found->size() > 1 && found->back().is_object() &&
                    found->back().value("role", Json()) == "assistant";
  if (!fits) {
    throw UserError({.where = where + " messages",
                     .expected = "a conversation whose last turn is the assistant's",
                     .found = base::short_json(*found, 60),
                     .cause = "the last turn is the completion, and those before it are the prompt",
                     .fix = "add the answer to this row, or remove the row"});
  }
  Json completion = Json::array({found->back()});
  found->erase(found->size() - 1);
  row["prompt"] = std::move(*found);
  row.erase("messages");
  row["completion"] = std::move(completion);
}

}  // namespace

bool PromptForm::stands_in(const Json& row) const {
  return column.empty() && !column_without_prompt.empty() && !row.contains("prompt") &&
         row.contains(column_without_prompt);
}

void make_prompt(Json& row, const PromptForm& form, const std::string& where) {
  // Before the split, after which every row has a prompt.
  const bool stands_in = form.stands_in(row);
  if (form.splits_messages && form.column.empty() && !stands_in) split_messages(row, where);
  if (stands_in) {
    const std::string& system = form.system.empty() ? form.system_without_prompt : form.system;
    make_conversation(row, {.system = system, .column = form.column_without_prompt}, where);
  } else if (!form.as_it_is()) {
    make_conversation(row, form, where);
  }
}

namespace {

PromptRow to_prompt_row(Json row, const std::string& where, const base::fs::path& path,
                        const PromptForm& form) {
  PromptRow out;
  out.where = where;
  make_prompt(row, form, where);
  out.prompt = prompt_of(row, path, out.where);
  if (out.prompt.is_array()) {
    check_messages(row, "prompt", out.where);
    check_template_columns(row, out.where);
  }
  row.erase("prompt");
  for (const char* left_out : {"completion", "completion_ids"}) {
    if (!row.contains(left_out)) continue;
    out.not_for_rewards[left_out] = std::move(row[left_out]);
    row.erase(left_out);
  }
  out.columns = std::move(row);
  return out;
}

// ---- tokens

Json column_or_null(const PromptRow& row, const char* name) {
  return row.columns.contains(name) ? row.columns.at(name) : Json();
}

std::string render(const PromptRow& row, const text::ChatTemplate& chat_template,
                   const Json& template_kwargs) {
  Json kwargs = template_kwargs.is_object() ? template_kwargs : Json::object();
  const Json own = column_or_null(row, "chat_template_kwargs");
  if (own.is_object()) kwargs.update(own);
  Json tools = column_or_null(row, "tools");
  if (tools.empty()) tools = Json();
  return with_row_context([&] { return row.where; },
                          [&] {
                            return chat_template
                                .render({.messages = row.prompt,
                                         .tools = std::move(tools),
                                         .template_kwargs = std::move(kwargs),
                                         .add_generation_prompt = true})
                                .text;
                          });
}

void check_ids(const std::vector<std::int32_t>& ids, const PromptRow& row, const text::Tokenizer& tokenizer,
               std::int64_t vocab_size) {
  if (ids.empty()) {
    throw UserError({.where = row.where + " prompt",
                     .expected = "at least one token",
                     .found = "an empty prompt",
                     .cause = "",
                     .fix = "write a prompt into this row, or remove the row"});
  }
  check_token_ids(ids, vocab_size, tokenizer, [&] { return row.where; });
}

[[noreturn]] void throw_no_template(const PromptRow& row) {
  throw UserError({.where = row.where,
                   .expected = "a tokenizer with a chat template, since the prompts are messages",
                   .found = "a tokenizer without one",
                   .cause = "a base model, not an instruct model",
                   .fix = "name a template with chat_template_path, or give the prompts as text"});
}

}  // namespace

std::vector<Json> read_prompts(const base::fs::path& path) {
  std::vector<Json> out;
  if (base::fs::is_regular_file(path)) {
    RowNames names;
    RowSource(path).for_each(
        names, [&](const Json& row, int number) { out.push_back(prompt_of(row, path, names.of(number))); });
    return out;
  }
  const std::string text = base::read_text(path);  // a pipe, or an error
  for_each_row(text, path, [&](const Json& row, int line) {
    out.push_back(prompt_of(row, path, path.string() + ":" + std::to_string(line)));
  });
  return out;
}

std::vector<PromptRow> read_prompt_rows(const RowSource& source) {
  return read_prompt_rows(source, PromptForm());
}

PromptRows prompt_rows(const PromptForm& form) {
  PromptRows out;
  out.form = form;
  return out;
}

void add_row(Json row, int number, PromptRows& to) {
  const std::string where = to.names.of(number);
  if (!to.begun) refuse_columns(row, prompt_columns(), where);
  PromptRow made = to_prompt_row(std::move(row), where, to.path, to.form);
  const bool conversation = made.prompt.is_array();
  if (!to.begun) {
    to.begun = true;
    to.conversational = conversation;
    to.first_where = where;
  } else if (conversation != to.conversational) {
    throw UserError({.where = where,
                     .expected = "a prompt like the first one (" + to.first_where +
                                 "): " + kind_of(to.conversational ? Json::array() : Json()),
                     .found = kind_of(made.prompt),
                     .cause = "prompts of both kinds in one file",
                     .fix = "write all prompts in the same form"});
  }
  to.rows.push_back(std::move(made));
  to.lines.push_back(number);
}

// Every row gets every column, in the order in which the file first names them.
namespace {

void fill_left_out(PromptRows& block) {
  for (const char* const name : {"completion", "completion_ids"}) {
    const bool there = std::any_of(block.rows.begin(), block.rows.end(),
                                   [&](const PromptRow& row) { return row.not_for_rewards.contains(name); });
    if (!there) continue;
    for (PromptRow& row : block.rows) {
      if (!row.not_for_rewards.contains(name)) row.not_for_rewards[name] = nullptr;
    }
  }
}

}  // namespace

void close_block(PromptRows& block) {
  fill_left_out(block);
  base::ObjectFiller names(block.columns);
  for (const PromptRow& row : block.rows) {
    for (const auto& [name, value] : row.columns.items()) names.at(name);
  }
  const auto& wanted = block.columns.get_ref<const Json::object_t&>();
  for (PromptRow& row : block.rows) {
    auto& own = row.columns.get_ref<Json::object_t&>();
    const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
    if (std::equal(wanted.begin(), wanted.end(), own.begin(), own.end(), same_name)) continue;
    Json filled = block.columns;
    base::ObjectFiller filler(filled);
    for (auto& [name, value] : own) filler.at(name) = std::move(value);
    row.columns = std::move(filled);
  }
}

std::vector<PromptRow> read_prompt_rows(const RowSource& source, const PromptForm& form, SeenRows* seen) {
  PromptRows all = read_all(source, prompt_rows(form));
  if (seen != nullptr) *seen = std::move(all.names.seen());
  return std::move(all.rows);
}

std::vector<TokenizedPrompt> tokenize_prompts(const std::vector<PromptRow>& rows,
                                              const text::Tokenizer& tokenizer,
                                              const text::ChatTemplate* chat_template,
                                              const Json& template_kwargs, std::int64_t vocab_size) {
  std::vector<TokenizedPrompt> out;
  out.reserve(rows.size());
  for (const PromptRow& row : rows) {
    const bool chat = row.prompt.is_array();
    if (chat && chat_template == nullptr) throw_no_template(row);
    TokenizedPrompt prompt;
    prompt.text = chat ? render(row, *chat_template, template_kwargs) : row.prompt.get<std::string>();
    prompt.ids = tokenizer.encode(prompt.text, /*add_special=*/!chat).ids;
    check_ids(prompt.ids, row, tokenizer, vocab_size);
    out.push_back(std::move(prompt));
  }
  return out;
}

}  // namespace hone::data
