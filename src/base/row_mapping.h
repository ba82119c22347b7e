// What becomes of each row after it was read and before a method looks at it, in the order of the fields.
// config/datasets/row_options.h makes it of a run's options, data/files/map_row.h and data/files/row_function.h apply it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hone::base {

// How the rows are written. kTrl: as TRL's trainers take them, unchanged.
enum class RowFormat { kTrl, kAlpaca, kShareGpt, kOpenAi, kAlpacaLine };
constexpr bool is_alpaca(RowFormat format) {
  return format == RowFormat::kAlpaca || format == RowFormat::kAlpacaLine;
}

// A function of the user's Python; an empty `word`: none.
struct RowFunctionPlan {
  std::string word;     // "path/to/map.py:function", "package.module.function"
  std::string python;   // empty: base/process/active_python.h
  double seconds = 60;  // that one row may take

  bool operator==(const RowFunctionPlan&) const = default;
};

struct RowMapping {
  RowFunctionPlan function;
  std::vector<std::pair<std::string, std::string>> columns;  // a column and the name that it gets
  RowFormat format = RowFormat::kTrl;
  std::string prompt_template;  // "Q: {question}\nA:": the text of columns; it becomes `prompt`; empty: none
  std::string text_template;    // the same, into `text_field`
  std::string text_field = "text";
  bool conversation = false;  // texts become turns of a user and an assistant
  std::string system_prompt;  // the first turn of a conversation that has none; empty: none

  // Rows stay as they are; text_field alone does nothing.
  bool empty() const {
    return function.word.empty() && columns.empty() && format == RowFormat::kTrl && prompt_template.empty() &&
           text_template.empty() && !conversation && system_prompt.empty();
  }
  bool operator==(const RowMapping&) const = default;
};

}  // namespace hone::base
