// Text from files, models, options and workers, as it may be shown: what a terminal would obey is spelled
// out.
#pragma once

#include <string>
#include <string_view>

namespace hone::base {

// `text` without anything that steers a terminal or hides what stands there: control characters (C0 but
// newline and tab, DEL, C1 as U+0080 to U+009F) and bytes that are no UTF-8 as \xNN, bidirectional overrides
// and isolates (U+202A to U+202E, U+2066 to U+2069) as \uNNNN. Everything else stays as it is.
//
// All that hone prints passes through it, to terminals, files and pipes alike: report/safe_streams.h for
// std::cout and std::cerr, main.cpp's say() for the rest; tools/check_rooms refuses other ways to print.
std::string printable(std::string_view text);

// The same for JSON text, which stays the same JSON: \u00NN and \uNNNN inside its strings.
std::string printable_json(std::string_view json);

// Bytes of the UTF-8 character that begins at `text[at]`; 0 when there is none.
std::size_t utf8_size(std::string_view text, std::size_t at);

}  // namespace hone::base
