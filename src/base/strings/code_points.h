// UTF-8 as code points and back.
#pragma once

#include <string>
#include <string_view>

namespace hone::base {

std::u32string to_code_points(std::string_view utf8);  // a damaged byte becomes U+FFFD
std::string to_utf8(std::u32string_view text);
bool is_space(char32_t c);  // as Python's str.isspace()
// Without white space at both ends, as Python's str.strip(). A view of `text`.
std::u32string_view stripped(std::u32string_view text);

}  // namespace hone::base
