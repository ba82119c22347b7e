// Checks that text from outside (options, YAML, file names) is UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hone::base {

// The first byte that is not part of well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates), or npos.
std::size_t bad_utf8_at(std::string_view text);
// The text with each such byte as \xNN.
std::string with_bad_utf8_shown(std::string_view text);
// At most `most` bytes, cut between characters; ends in "..." when it was cut.
std::string cut_text(std::string_view text, std::size_t most);

}  // namespace hone::base
