// A text at a separator.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace hone::base {

// The pieces between separators, empty ones too: n separators make n + 1 pieces.
inline std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    out.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

}  // namespace hone::base
