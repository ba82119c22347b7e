// Paths as users write them, in YAML files and on the command line: "~" is the home folder, and environment
// variables, which a shell would have expanded, are refused by name.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "config/option_table.h"

namespace hone::config {

// What a text of an option may be. A test holds the table against the options of all commands.
enum class PathForm {
  kNone,
  kPath,      // a path; or a name of the hub, an address
  kMaybe,     // a path among other texts: "~/" counts, and '$' is part of the text
  kNamed,     // NAME=PATH, or a path
  kFunction,  // path/to/file.py:function, or something else
  kSets,      // data sets with path, data_dir and data_files
};
PathForm path_form(std::string_view option);

// `value` of `option` with its paths expanded; other values as they are. UserError, naming `where`: "~"
// without HOME, and a path with $NAME or ${NAME} that is not there as it is written, unless `as_written`:
// such a text stays.
base::Json with_user_paths(const Option& option, base::Json value, const std::string& where,
                           bool as_written = false);
std::string user_path(const std::string& path, const std::string& where);  // of PathForm::kPath

// What to write instead of `text`, which has an environment variable in it; "" where it has none.
std::string variable_advice(const std::string& text);

}  // namespace hone::config
