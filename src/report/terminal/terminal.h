// Colors and widths of a terminal, and human-readable numbers. Plain text when the output is not a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hone::report {

struct Terminal {
  bool interactive = false;  // supports a line that is rewritten in place
  bool color = false;
  int columns = 0;  // 0: not known, or not a terminal

  std::string bold(std::string_view text) const;
  std::string green(std::string_view text) const;
  std::string dim(std::string_view text) const;
};

// The properties of an open file: interactive, colored and of known width when it is a terminal.
Terminal terminal_of(int descriptor);

// base::printable(): so that no data can control a terminal. Used where text from files, models or options
// becomes part of a line; report/terminal/safe_streams.h catches the rest.
std::string visible_controls(std::string_view text);

std::string human_count(std::int64_t value);  // 134,515,008
std::string human_bytes(std::int64_t bytes);  // "9.8 MB"
std::string human_seconds(double seconds);    // "41 s", "3 min 12 s", "2 h 05 min"

}  // namespace hone::report
