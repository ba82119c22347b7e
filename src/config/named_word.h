// A word of `environment`: a factory, or several by name.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace hone::config {

// "shop=shop.py:Shop" as {"shop", "shop.py:Shop"}; a word without a name, or with a path that has a "=", as {"", word}.
inline std::pair<std::string, std::string> split_named(const std::string& word) {
  const std::size_t equal = word.find('=');
  const std::string_view name = std::string_view(word).substr(0, equal == std::string::npos ? 0 : equal);
  const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return c == '_' || c == '-' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  });
  if (!is_name) return {"", word};
  return {std::string(name), word.substr(equal + 1)};
}

}  // namespace hone::config
