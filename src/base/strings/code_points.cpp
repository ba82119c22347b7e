#include "base/strings/code_points.h"

namespace hone::base {

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::u32string to_code_points(std::string_view utf8) {
  std::u32string out;
  out.reserve(utf8.size());
  for (std::size_t i = 0; i < utf8.size();) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xC2 ? 0
                               : lead < 0xE0 ? 2
                               : lead < 0xF0 ? 3
                               : lead < 0xF5 ? 4
                                             : 0;
    char32_t c = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    bool good = length > 0 && i + length <= utf8.size();
    for (std::size_t k = 1; good && k < length; ++k) {
      const auto next = static_cast<unsigned char>(utf8[i + k]);
      good = (next & 0xC0U) == 0x80U;
      c = c << 6 | (next & 0x3FU);
    }
    out += good ? c : U'\uFFFD';
    i += good ? length : 1;
  }
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto add = [&out](char32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  for (const char32_t c : text) {
    if (c < 0x80) {
      add(c);
    } else if (c < 0x800) {
      add(0xC0U | c >> 6);
      add(0x80U | (c & 0x3FU));
    } else if (c < 0x10000) {
      add(0xE0U | c >> 12);
      add(0x80U | (c >> 6 & 0x3FU));
      add(0x80U | (c & 0x3FU));
    } else {
      add(0xF0U | c >> 18);
      add(0x80U | (c >> 12 & 0x3FU));
      add(0x80U | (c >> 6 & 0x3FU));
      add(0x80U | (c & 0x3FU));
    }
  }
  return out;
}

std::u32string_view stripped(std::u32string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace hone::base
