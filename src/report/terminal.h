// Colors and widths of a terminal, and human forms of numbers. Plain text when the output is no terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hone::report {

struct Terminal {
  bool interactive = false;  // one line that rewrites itself
  bool color = false;
  int columns = 0;  // 0: not known, or no terminal

  std::string bold(std::string_view text) const;
  std::string green(std::string_view text) const;
  std::string dim(std::string_view text) const;
};

// What stands behind an open file: interactive, colored and as wide as it is when it is a terminal.
Terminal terminal_of(int descriptor);

// base::printable(): so that no data can steer a terminal. Said where text from files, models or options
// becomes part of a line; what is forgotten report/safe_streams.h catches.
std::string visible_controls(std::string_view text);

std::string human_count(std::int64_t value);  // 134,515,008
std::string human_bytes(std::int64_t bytes);  // "9.8 MB"
std::string human_seconds(double seconds);    // "41 s", "3 min 12 s", "2 h 05 min"

}  // namespace hone::report
