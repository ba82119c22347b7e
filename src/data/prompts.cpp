#include "data/prompts.h"

#include <string>
#include <string_view>

#include "base/error.h"

namespace hone::data {

using base::Json;
using base::UserError;

namespace {

Json prompt_of(const Json& row, const std::string& where) {
  if (!row.is_object() || !row.contains("prompt")) {
    std::string columns;
    for (const auto& [name, value] : row.items()) columns += (columns.empty() ? "" : ", ") + name;
    throw UserError({.where = where,
                     .expected = "an object with a column `prompt`",
                     .found = row.is_object() ? "the columns " + columns : "a row that is no object",
                     .fix = "rename the column that holds the prompt"});
  }
  const Json& prompt = row.at("prompt");
  if (prompt.is_string() || prompt.is_array()) return prompt;
  throw UserError({.where = where + " prompt",
                   .expected = "a string, or a list of messages",
                   .found = prompt.type_name(),
                   .fix = "write the prompt as text"});
}

}  // namespace

std::vector<Json> read_prompts(const base::fs::path& path) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const std::string text = base::read_text(path);
  std::vector<Json> out;
  int line_number = 0;
  for (std::size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
       begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    out.push_back(prompt_of(base::parse_json(line, path.string(), line_number),
                            path.string() + ":" + std::to_string(line_number)));
  }
  if (!out.empty()) return out;
  throw UserError(
      {.where = path.string(), .expected = "at least one prompt", .found = "no rows", .fix = "add a row"});
}

}  // namespace hone::data
