// Text from files, models, options and workers, made safe to print: control characters are escaped.
#pragma once

#include <string>
#include <string_view>

namespace hone::base {

// `text` with everything escaped that controls a terminal or hides text: control characters (C0 but newline
// and tab, DEL, C1 as U+0080 to U+009F) and bytes that are not UTF-8 as \xNN, bidirectional overrides and
// isolates (U+202A to U+202E, U+2066 to U+2069) as \uNNNN. Everything else is unchanged.
//
// All output of hone passes through it, to terminals, files and pipes alike: report/terminal/safe_streams.h for
// std::cout and std::cerr, main.cpp's say() for the rest. tools/check_rooms rejects other ways to print.
std::string printable(std::string_view text);

// The same for JSON text, whose value does not change: \u00NN and \uNNNN inside its strings.
std::string printable_json(std::string_view json);

// Bytes of the UTF-8 character that begins at `text[at]`; 0 when there is none.
std::size_t utf8_size(std::string_view text, std::size_t at);

}  // namespace hone::base
