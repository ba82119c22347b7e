// A text as its lines.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace hone::base {

// Without the line ends; nothing for what follows the last one.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

}  // namespace hone::base
