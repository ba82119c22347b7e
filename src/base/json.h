// JSON with the order of keys kept, as Hugging Face's files are written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hone::base {

using Json = nlohmann::ordered_json;

// Parses `text`; `where` names the file. Throws UserError "[file:line:column] ..." on a syntax error.
// `first_line` is the number of the text's first line in its file (JSONL rows).
Json parse_json(std::string_view text, const std::string& where, int first_line = 1);

// One line, non-ASCII kept, invalid UTF-8 replaced; `indent` >= 0 for pretty printing.
std::string dump_json(const Json& value, int indent = -1);

}  // namespace hone::base
