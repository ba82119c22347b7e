// A text in another one that may have escaped it.
#pragma once

#include <string>
#include <string_view>

namespace hone::commands {

// `text` with `with` for each place that spells `value`: as it is, in a string of JSON, YAML, Python, C or a shell (\" \\ \n
// \x1b \033 \u00e9 \U0001f511, also \/, capital digits and lines that were folded), in such a string of a string, up to three
// deep, between single quotes of YAML (''), in an address (%22, +), or with other white space where it has some. `value` must not be empty, nor begin or end with white space.
std::string without_spelled(std::string_view text, std::string_view value, std::string_view with);

}  // namespace hone::commands
