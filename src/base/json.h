// JSON that keeps the order of keys, as in Hugging Face's files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hone::base {

using Json = nlohmann::ordered_json;

// Deeper nesting is an error, since printing and walking a value recurse.
inline constexpr int kMaxJsonDepth = 256;

// Parses `text`; `where` names the file. Throws UserError "[file:line:column] ..." on a syntax error, on
// anything but white space after the value, on ill-formed UTF-8 and on nesting deeper than kMaxJsonDepth; the
// column counts characters, not bytes. `first_line` is the number of the text's first line in its file (JSONL
// rows). If a key occurs twice the last value is used, as in Python.
Json parse_json(std::string_view text, const std::string& where, int first_line = 1);

// The same, with NaN, Infinity and -Infinity as Python's json writes them, which become such numbers; a
// duplicate key is a UserError. The datasets library takes the same text for a row.
Json parse_python_json(std::string_view text, const std::string& where, int first_line = 1);

// parse_json, but a duplicate key is a UserError and keys are sorted. For large files in which order has no
// meaning: Json looks a key up in linear time (a vocabulary of 50,000 takes seconds).
nlohmann::json parse_json_unique(std::string_view text, const std::string& where);

// One line, non-ASCII kept, invalid UTF-8 replaced; `indent` >= 0 for pretty printing.
std::string dump_json(const Json& value, int indent = -1);
// The same in one line, with NaN, Infinity and -Infinity, which dump_json writes as null.
std::string dump_python_json(const Json& value);

}  // namespace hone::base
