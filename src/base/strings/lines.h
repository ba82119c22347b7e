// A text as its lines.
#pragma once

#include <algorithm>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace hone::base {

// Without the line ends; nothing for what follows the last one. Views of `text`.
inline std::vector<std::string_view> line_views(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// The views of a temporary would outlive it: keep the text in a variable, or take lines_of().
template <std::same_as<std::string> Text>
std::vector<std::string_view> line_views(Text&& text) = delete;

inline std::vector<std::string> lines_of(std::string_view text) {
  const std::vector<std::string_view> views = line_views(text);
  return {views.begin(), views.end()};
}

}  // namespace hone::base
