#include "base/strings/printable.h"

#include <cstdint>

namespace hone::base {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

std::uint32_t decode(std::string_view text, std::size_t at, std::size_t size) {
  const unsigned char lead = byte_at(text, at);
  std::uint32_t point = size == 1 ? lead : size == 2 ? lead & 0x1FU : size == 3 ? lead & 0x0FU : lead & 0x07U;
  for (std::size_t i = 1; i < size; ++i) point = point << 6U | (byte_at(text, at + i) & 0x3FU);
  return point;
}

std::string hex(std::uint32_t value, std::size_t digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(digits, '0');
  for (std::size_t i = digits; i > 0; --i, value >>= 4U) out[i - 1] = kDigits[value & 0xFU];
  return out;
}

bool is_control(std::uint32_t point) {
  return (point < 0x20 && point != '\n' && point != '\t') || (point >= 0x7F && point <= 0x9F);
}

bool reorders(std::uint32_t point) {
  return (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

std::string spelled_out(std::string_view text, bool json) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = utf8_size(text, at);
    if (size == 0) {
      out += json ? std::string("\xEF\xBF\xBD") : "\\x" + hex(byte_at(text, at), 2);
      ++at;
      continue;
    }
    const std::uint32_t point = decode(text, at, size);
    if (is_control(point)) {
      out += json ? "\\u" + hex(point, 4) : "\\x" + hex(point, 2);
    } else if (reorders(point)) {
      out += "\\u" + hex(point, 4);
    } else {
      out += text.substr(at, size);
    }
    at += size;
  }
  return out;
}

}  // namespace

std::size_t utf8_size(std::string_view text, std::size_t at) {
  const unsigned char lead = byte_at(text, at);
  if (lead < 0x80) return at < text.size() ? 1 : 0;
  const std::size_t size = lead >= 0xC2 && lead < 0xE0   ? 2
                           : lead >= 0xE0 && lead < 0xF0 ? 3
                           : lead >= 0xF0 && lead < 0xF5 ? 4
                                                         : 0;
  if (size == 0 || at + size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte_at(text, at + i) & 0xC0U) != 0x80U) return 0;
  }
  // Longer forms than needed, surrogates, and what lies beyond U+10FFFF.
  const std::uint32_t point = decode(text, at, size);
  const std::uint32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  return point < least || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF) ? 0 : size;
}

std::string printable(std::string_view text) {
  return spelled_out(text, false);
}

std::string printable_json(std::string_view json) {
  return spelled_out(json, true);
}

}  // namespace hone::base
