#include "base/strings/utf8.h"

namespace hone::base {

namespace {

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// Bytes of the well-formed character at the front of a text that is not empty; 0: none is there.
std::size_t character_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xC2 && first <= 0xDF   ? 2
                           : first >= 0xE0 && first <= 0xEF ? 3
                           : first >= 0xF0 && first <= 0xF4 ? 4
                                                            : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(text[i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool beyond = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : size;
}

}  // namespace

std::size_t bad_utf8_at(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_size(text.substr(at));
    if (size == 0) return at;
    at += size;
  }
  return std::string_view::npos;
}

std::string with_bad_utf8_shown(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (std::size_t bad = bad_utf8_at(text); bad != std::string_view::npos; bad = bad_utf8_at(text)) {
    const auto byte = static_cast<unsigned char>(text[bad]);
    out.append(text.substr(0, bad)).append("\\x");
    out.push_back(kDigits[byte >> 4U]);
    out.push_back(kDigits[byte & 15U]);
    text.remove_prefix(bad + 1);
  }
  return out.append(text);
}

std::string cut_text(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  while (end > 0 && most - end < 3 && continues(text[end])) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace hone::base
