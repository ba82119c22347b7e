// The table of `hone check` says what the names of a configuration became, name by name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/parse.h"

namespace hone::config {

struct CheckedLine {
  enum class As { kKept, kRenamed, kIgnored, kRefused } as = As::kKept;
  std::string where;  // "run.yaml:7", "--name"
  std::string name;   // as it was written
  std::string what;  // kKept: its value; kRenamed: "dtype: bfloat16"; kIgnored: why; kRefused: what was found
  std::string fix;   // kRefused: what to do
};
std::string_view checked_name(CheckedLine::As as);  // "kept", "renamed", ...

struct CheckedRun {
  std::vector<CheckedLine> lines;          // in the order of reading
  std::vector<base::UserError> elsewhere;  // mistakes of no single line
};
CheckedRun checked_lines(const ReadRun& run);

// The text of the file `file_name` with the options' names of today in place of former ones, and the lines that
// changed: "-torch_dtype: bfloat16", "+dtype: bfloat16". A name whose value would have to become a mapping stays.
struct RenamedYaml {
  std::string text;
  std::vector<std::string> diff;
};
RenamedYaml renamed_yaml(const std::string& text, const ReadRun& run, const std::string& file_name);

}  // namespace hone::config
