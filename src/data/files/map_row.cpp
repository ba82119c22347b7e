#include "data/files/map_row.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "data/files/describe_row.h"

namespace hone::data {
namespace {

using base::Json;
using base::RowFormat;
using base::RowMapping;
using base::UserError;

constexpr std::array<const char*, 6> kMessageColumns = {"prompt",   "completion", "chosen",
                                                        "rejected", "messages",   "conversations"};
constexpr const char* kAlpacaBegin = "Below is an instruction that describes a task";
constexpr const char* kAlpacaWithInput =
    ", paired with an input that provides further context. Write a response that appropriately completes the "
    "request.\n\n### Instruction:\n";
constexpr const char* kAlpacaWithoutInput =
    ". Write a response that appropriately completes the request.\n\n### Instruction:\n";

[[noreturn]] void throw_column(const Json& row, const std::string& column, const std::string& option,
                               const std::string& where) {
  const std::vector<std::string> there = columns_of(row);
  throw UserError({.where = where,
                   .expected = "the column '" + base::cut_text(column, 100) + "', which " + option + " reads",
                   .found = "columns: " + join(there) + "." + base::did_you_mean(column, there),
                   .cause = "",
                   .fix = "correct " + option + ", or the row"});
}

[[noreturn]] void throw_value(const std::string& column, const std::string& expected, const Json& found,
                              const std::string& where) {
  throw UserError({.where = where,
                   .expected = "column '" + base::cut_text(column, 100) + "' to be " + expected,
                   .found = a_type(found),
                   .cause = "",
                   .fix = "correct this row, or remove it"});
}

std::string text_in(const Json& row, const std::string& column, const std::string& option,
                    const std::string& where) {
  const auto found = row.find(column);
  if (found == row.end()) throw_column(row, column, option, where);
  if (!found->is_string()) throw_value(column, "a string", *found, where);
  return found->get<std::string>();
}

// "" for a column that is not there, and for null.
std::string text_or_nothing(const Json& row, const std::string& column, const std::string& option,
                            const std::string& where) {
  const auto found = row.find(column);
  return found == row.end() || found->is_null() ? "" : text_in(row, column, option, where);
}

Json turn(const char* role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

// ---- dataset_columns

Json with_names(const Json& row, const RowMapping& mapping, const std::string& where, bool first) {
  const auto named = [&](const std::string& column) {
    return std::find_if(mapping.columns.begin(), mapping.columns.end(),
                        [&](const auto& each) { return each.first == column; });
  };
  for (const auto& [column, name] : mapping.columns) {
    if (first && !row.contains(column)) throw_column(row, column, "dataset_columns", where);
    if (!row.contains(name) || named(name) != mapping.columns.end()) continue;
    throw UserError(
        {.where = where,
         .expected = "no column '" + name + "' yet, since dataset_columns names '" + column + "' so",
         .found = "columns: " + join(columns_of(row)),
         .cause = "two columns would have one name",
         .fix = "give '" + name + "' another name in dataset_columns too"});
  }
  Json out = Json::object();
  for (const auto& [column, value] : row.items()) {
    const auto found = named(column);
    out[found == mapping.columns.end() ? column : found->second] = value;
  }
  return out;
}

// ---- alpaca

constexpr const char* kAlpaca = "row_format: alpaca";

Json alpaca_turns(const Json& row, const std::string& instruction, const std::string& input,
                  const std::string& where) {
  Json out = Json::array();
  const std::string system = text_or_nothing(row, "system", kAlpaca, where);
  if (!system.empty()) out.push_back(turn("system", system));
  const auto history = row.find("history");
  if (history != row.end() && !history->is_null()) {
    if (!history->is_array()) throw_value("history", "a list of [instruction, output]", *history, where);
    for (const Json& one : *history) {
      if (!one.is_array() || one.size() != 2 || !one[0].is_string() || !one[1].is_string())
        throw_value("history", "a list of [instruction, output]", one, where);
      out.push_back(turn("user", one[0].get<std::string>()));
      out.push_back(turn("assistant", one[1].get<std::string>()));
    }
  }
  out.push_back(turn("user", input.empty() ? instruction : instruction + "\n" + input));
  return out;
}

void from_alpaca(Json& row, const RowMapping& mapping, const std::string& where) {
  const std::string instruction = text_in(row, "instruction", kAlpaca, where);
  const std::string input = text_or_nothing(row, "input", kAlpaca, where);
  const std::string output = text_in(row, "output", kAlpaca, where);
  Json prompt, completion;
  if (mapping.conversation || !mapping.system_prompt.empty()) {
    prompt = alpaca_turns(row, instruction, input, where);
    completion = Json::array({turn("assistant", output)});
  } else {
    for (const char* column : {"history", "system"}) {
      if (!row.contains(column) || row[column].is_null() || row[column].empty() || row[column] == Json(""))
        continue;
      throw UserError(
          {.where = where,
           .expected = "no '" + std::string(column) + "', which Alpaca's template has no place for",
           .found = "a row with one",
           .cause = "the rows are conversations",
           .fix = "set make_conversation: true"});
    }
    prompt = kAlpacaBegin + std::string(input.empty() ? kAlpacaWithoutInput : kAlpacaWithInput) +
             instruction + (input.empty() ? "" : "\n\n### Input:\n" + input) +
             "\n\n### Response:" + (mapping.format == RowFormat::kAlpacaLine ? "\n" : "");
    completion = output;
  }
  for (const char* column : {"instruction", "input", "output", "history", "system"}) row.erase(column);
  row["prompt"] = std::move(prompt);
  row["completion"] = std::move(completion);
}

// ---- sharegpt

std::string role_of(const std::string& role, const std::string& where) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 6> kRoles = {
      {{"human", "user"},
       {"user", "user"},
       {"gpt", "assistant"},
       {"assistant", "assistant"},
       {"system", "system"},
       {"tool", "tool"}}};
  for (const auto& [name, becomes] : kRoles) {
    if (role == name) return becomes;
  }
  throw UserError(
      {.where = where,
       .expected = "messages from human, user, gpt, assistant, system or tool (row_format: sharegpt)",
       .found = "'" + base::cut_text(role, 100) + "'",
       .cause = "",
       .fix = "rename the role in the data, or with row_function"});
}

Json message_of(const Json& message, const std::string& place, const std::string& where) {
  if (!message.is_object()) throw_value(place, "an object with 'from' and 'value'", message, where);
  Json out = Json::object();
  for (const auto& [key, value] : message.items()) {
    const bool is_role = key == "from" || key == "role";
    if (is_role && !value.is_string()) throw_value(place + "." + key, "a string", value, where);
    if (is_role) {
      out["role"] = role_of(value.get<std::string>(), where);
    } else {
      out[key == "value" ? "content" : key] = value;
    }
  }
  return out;
}

// Calls change(message, "messages[2]") for each message of the row's lists; false: it has none.
template <typename Change>
bool each_message(Json& row, const Change& change) {
  bool any = false;
  for (const char* column : kMessageColumns) {
    const auto found = row.find(column);
    if (found == row.end() || !found->is_array()) continue;
    any = true;
    int number = 0;
    for (Json& message : *found) change(message, std::string(column) + "[" + std::to_string(number++) + "]");
  }
  return any;
}

void put_system_turn(Json& messages, const std::string& system) {
  if (!messages.is_array()) return;  // its reader says what it should be
  if (messages.empty() || !messages[0].is_object() || !messages[0].contains("role") ||
      messages[0]["role"] != "system")
    messages.insert(messages.begin(), turn("system", system));
}

void from_sharegpt(Json& row, const std::string& where) {
  for (const char* answer : {"completion", "chosen", "rejected"}) {  // one turn instead of a list
    const auto found = row.find(answer);
    if (found != row.end() && found->is_object()) *found = Json::array({*found});
  }
  const bool any = each_message(
      row, [&](Json& message, const std::string& place) { message = message_of(message, place, where); });
  if (!any) throw_column(row, "conversations", "row_format: sharegpt", where);
  if (row.contains("conversations") && !row.contains("messages")) {
    row["messages"] = std::move(row["conversations"]);
    row.erase("conversations");
  }
  const std::string system = text_or_nothing(row, "system", "row_format: sharegpt", where);
  if (system.empty()) return;
  const char* const first = row.contains("prompt") ? "prompt" : "messages";
  if (row.contains(first) && row[first].is_array()) put_system_turn(row[first], system);
  row.erase("system");
}

// ---- openai

std::string joined_parts(const Json& parts, const std::string& place, const std::string& where) {
  std::string out;
  for (const Json& part : parts) {
    const bool is_text = part.is_object() && part.contains("type") && part["type"] == "text" &&
                         part.contains("text") && part["text"].is_string();
    if (is_text) {
      out += part["text"].get<std::string>();
      continue;
    }
    throw UserError({.where = where,
                     .expected = "parts {\"type\": \"text\", \"text\": ...} in " + place,
                     .found = base::cut_text(base::dump_json(part), 200),
                     .cause = "hone trains on text only: no images, no audio",
                     .fix = "remove the row, or the part"});
  }
  return out;
}

void from_openai(Json& row, const std::string& where) {
  const bool any = each_message(row, [&](Json& message, const std::string& place) {
    if (message.is_object() && message.contains("content") && message["content"].is_array())
      message["content"] = joined_parts(message["content"], place + ".content", where);
  });
  if (!any) throw_column(row, "messages", "row_format: openai", where);
}

// ---- conversations

void to_turn(Json& row, const char* column, const char* role) {
  const auto found = row.find(column);
  if (found != row.end() && found->is_string()) *found = Json::array({turn(role, found->get<std::string>())});
}

void to_conversation(Json& row, const std::string& where) {
  if (!row.contains("prompt")) {
    if (row.contains("messages") && row["messages"].is_array()) return;
    throw_column(row, "prompt", "make_conversation", where);
  }
  to_turn(row, "prompt", "user");
  for (const char* column : {"completion", "chosen", "rejected"}) to_turn(row, column, "assistant");
}

}  // namespace

std::string fill_template(const std::string& text, const Json& row, const std::string& where,
                          const std::string& option) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if ((c == '{' || c == '}') && at + 1 < text.size() && text[at + 1] == c) {
      out += c;
      ++at;
      continue;
    }
    const std::size_t end = c == '{' ? text.find('}', at) : std::string::npos;
    if (end == std::string::npos) {
      out += c;
      continue;
    }
    const std::string column = text.substr(at + 1, end - at - 1);
    const auto found = row.find(column);
    if (found == row.end()) throw_column(row, column, option, where);
    if (found->is_structured()) throw_value(column, "a text or a number, for " + option, *found, where);
    if (found->is_string()) {
      out += found->get<std::string>();
    } else if (found->is_boolean()) {
      out += found->get<bool>() ? "True" : "False";
    } else if (!found->is_null()) {
      out += base::dump_json(*found);
    }
    at = end;
  }
  return out;
}

namespace {

// Runs `change`, and notes in `effect`, where it is given, that it changed the row.
template <typename Change>
void apply(Json& row, bool* effect, const Change& change) {
  if (effect == nullptr || *effect) return change();
  const auto before = Json(row);  // a copy: `change` has the row by reference
  change();
  *effect = row != before;
}

void to_format(Json& row, const RowMapping& mapping, const std::string& where) {
  if (is_alpaca(mapping.format)) from_alpaca(row, mapping, where);
  if (mapping.format == RowFormat::kShareGpt) from_sharegpt(row, where);
  if (mapping.format == RowFormat::kOpenAi) from_openai(row, where);
}

}  // namespace

Json map_row(Json row, const RowMapping& mapping, const std::string& where, bool first, MapEffects* effects) {
  if (!mapping.columns.empty()) row = with_names(row, mapping, where, first);
  apply(row, effects == nullptr ? nullptr : &effects->format, [&] { to_format(row, mapping, where); });
  if (!mapping.prompt_template.empty())
    row["prompt"] = fill_template(mapping.prompt_template, row, where, "prompt_template");
  if (!mapping.text_template.empty())
    row = {{mapping.text_field, fill_template(mapping.text_template, row, where, "text_template")}};
  if (mapping.conversation || !mapping.system_prompt.empty())
    apply(row, effects == nullptr ? nullptr : &effects->conversation, [&] { to_conversation(row, where); });
  if (!mapping.system_prompt.empty()) {
    apply(row, effects == nullptr ? nullptr : &effects->system_prompt, [&] {
      put_system_turn(row[row.contains("prompt") ? "prompt" : "messages"], mapping.system_prompt);
    });
  }
  return row;
}

}  // namespace hone::data
