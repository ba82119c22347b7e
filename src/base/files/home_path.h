// "~" at the beginning of a path, which a shell expands only where it stands unquoted at the beginning of a
// word: never in a YAML file, nor in --output=~/x.
#pragma once

#include <optional>
#include <string>

namespace hone::base {

// "~" and "~/x": below HOME. "~name/x": below that user's home, where there is such a user. Every other text,
// "~x" of no user and "a/~" among them, as it is. UserError, naming `where`, for "~" without HOME.
std::string expand_home(const std::string& path, const std::string& where);

// The value of an environment variable that names a folder. Empty for every other one: it may hold a secret,
// which no message shows.
std::optional<std::string> folder_of_variable(const std::string& name);

}  // namespace hone::base
