#include "config/datasets/row_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json_tools.h"
#include "config/parse.h"

namespace hone::config {
namespace {

using base::Json;
using base::RowFormat;
using base::RowMapping;

RowFormat format_of(const std::string& word) {
  if (word == "alpaca") return RowFormat::kAlpaca;
  if (word == "alpaca_line") return RowFormat::kAlpacaLine;
  if (word == "sharegpt") return RowFormat::kShareGpt;
  return word == "openai" ? RowFormat::kOpenAi : RowFormat::kTrl;
}

std::vector<std::pair<std::string, std::string>> columns_of(const Settings& settings) {
  constexpr const char* kColumns = "dataset_columns";
  std::vector<std::pair<std::string, std::string>> out;
  const Json& columns = settings.value(kColumns);
  if (columns.is_null()) return out;
  for (const auto& [column, name] : columns.items()) {
    if (!name.is_string() || name.get<std::string>().empty())
      conflict(settings, kColumns, fmt::format("a name for the column {}", column), base::short_json(name),
               "", "write dataset_columns: {question: prompt, answer: completion}");
    const std::string becomes = name.get<std::string>();
    const auto taken =
        std::find_if(out.begin(), out.end(), [&](const auto& each) { return each.second == becomes; });
    if (taken != out.end())
      conflict(settings, kColumns, "another name for each column",
               fmt::format("{} and {} are both named {}", taken->first, column, becomes));
    out.emplace_back(column, becomes);
  }
  return out;
}

// "{column}"; "{{" and "}}" are braces.
void check_template(const Settings& settings, const char* option) {
  const std::string text = settings.text(option);
  bool open = false;
  int columns = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c != '{' && c != '}') continue;
    if (!open && at + 1 < text.size() && text[at + 1] == c) {
      ++at;
      continue;
    }
    if ((c == '{') == open)
      conflict(settings, option, "braces around the names of columns: {question}",
               fmt::format("a single '{}' at character {}", c, at + 1), "",
               "write {{ and }} for braces that are text");
    open = c == '{';
    columns += open ? 1 : 0;
  }
  if (open || (!text.empty() && columns == 0))
    conflict(settings, option, "braces around the names of columns: {question}",
             open ? "a '{' that is not closed" : "no column in it", "",
             fmt::format("write {}: \"Question: {{question}}\\nAnswer:\"", option));
}

}  // namespace

base::RowMapping row_mapping(const Settings& settings) {
  RowMapping out;
  out.columns = columns_of(settings);
  out.format = format_of(settings.text("row_format"));
  check_template(settings, "prompt_template");
  out.prompt_template = settings.text("prompt_template");
  if (settings.schema().find("text_template") != nullptr) {
    check_template(settings, "text_template");
    out.text_template = settings.text("text_template");
    out.text_field = settings.text("dataset_text_field");
  }
  if (!out.prompt_template.empty() && !out.text_template.empty())
    conflict(settings, "text_template", "prompt_template or text_template, not both", "both", "",
             "remove one of the two");
  out.conversation = settings.flag("make_conversation");
  out.system_prompt = settings.text("dataset_system_prompt");
  if (!out.text_template.empty() && (out.conversation || !out.system_prompt.empty()))
    conflict(
        settings, "text_template", "rows of text, or conversations", "both", "",
        "use prompt_template with make_conversation, or remove make_conversation and dataset_system_prompt");
  out.function.word = settings.text("row_function");
  if (out.function.word.empty()) return out;
  out.function.python = settings.text("python");
  out.function.seconds = settings.number("row_timeout");
  require_function(out.function.word, "row_function", settings.where("row_function"));
  return out;
}

std::vector<std::string> describe_mapping(const base::RowMapping& mapping) {
  std::vector<std::string> out;
  if (!mapping.function.word.empty())
    out.push_back(fmt::format("row_function: each row is what {} makes of it", mapping.function.word));
  if (!mapping.columns.empty()) {
    std::vector<std::string> names;
    for (const auto& [column, name] : mapping.columns)
      names.push_back(fmt::format("{} is read as {}", column, name));
    out.push_back(fmt::format("dataset_columns: {}", fmt::join(names, ", ")));
  }
  const bool turns = mapping.conversation || !mapping.system_prompt.empty();
  if (is_alpaca(mapping.format))
    out.push_back(
        turns
            ? std::string(
                  "row_format: alpaca: instruction and input become the user's turn, output the assistant's")
            : "row_format: alpaca: instruction, input and output become prompt and completion, with "
              "Stanford Alpaca's text" +
                  std::string(mapping.format == RowFormat::kAlpacaLine
                                  ? ", and a line break before the answer"
                                  : ""));
  if (mapping.format == RowFormat::kShareGpt)
    out.emplace_back(
        "row_format: sharegpt: from and value become role and content, human becomes user, gpt assistant");
  if (mapping.format == RowFormat::kOpenAi)
    out.emplace_back("row_format: openai: the text parts of a message become one text");
  if (!mapping.prompt_template.empty()) out.emplace_back("prompt_template: makes the prompt of each row");
  if (!mapping.text_template.empty())
    out.push_back(fmt::format("text_template: makes the column {} of each row", mapping.text_field));
  if (mapping.conversation)
    out.emplace_back(
        "make_conversation: texts become turns of user and assistant, in the model's chat template");
  if (!mapping.system_prompt.empty())
    out.emplace_back("dataset_system_prompt: a system turn before each conversation without one");
  return out;
}

}  // namespace hone::config
