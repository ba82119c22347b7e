#include "commands/process/spelled_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/error.h"
#include "base/strings/printable.h"

namespace hone::commands {
namespace {

constexpr std::size_t kDeepest = 3;  // strings in strings
constexpr std::size_t kNone = std::string_view::npos;

bool is_white(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// The number that `digits` hexadecimal digits at `at` are; -1: there are none.
std::int64_t hex_at(std::string_view text, std::size_t at, std::size_t digits) {
  std::int64_t out = -1;
  if (at + digits > text.size()) return -1;
  const char* const end = text.data() + at + digits;
  const auto read = std::from_chars(text.data() + at, end, out, 16);
  return read.ptr == end && text[at] != '-' ? out : -1;
}

// The code of a UTF-8 character of `size` bytes.
std::int64_t code_of(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  if (character.size() < 2) return lead;
  std::int64_t out = lead & (0xFFU >> (character.size() + 1));
  for (const char c : character.substr(1)) out = out << 6 | (static_cast<unsigned char>(c) & 0x3FU);
  return out;
}

// Compares a value with a text from `at` on; `depth` strings are around it.
class Spelling {
 public:
  Spelling(std::string_view text, std::size_t at, std::size_t depth, bool is_address)
      : text_(text), at_(at), depth_(depth), is_address_(is_address) {}

  // Behind the value; kNone: it does not stand here.
  std::size_t end_of(std::string_view value) {
    for (std::size_t i = 0; i < value.size();) {
      if (is_white(value[i]) && skip_white()) {
        while (i < value.size() && is_white(value[i])) ++i;
        continue;
      }
      const std::size_t size = std::max<std::size_t>(base::utf8_size(value, i), 1);
      if (!take(value.substr(i, size))) return kNone;
      i += size;
    }
    return at_;
  }

 private:
  bool take(std::string_view character) {
    if (is_address_ && take_bytes(character, '%', at_)) return true;
    if (is_address_ && character == " " && text_.substr(at_, 1) == "+") return ++at_ != 0;
    if (character == "\\") return take_backslash();
    const std::size_t letter = text_.find_first_not_of('\\', at_);
    if (letter == kNone) return false;
    const std::size_t backslashes = letter - at_;
    if (backslashes >= std::size_t{1} << kDeepest) return false;
    if (text_.compare(letter, character.size(), character) == 0) {
      at_ = letter + character.size();
      return true;
    }
    return backslashes > 0 && take_escape(character, letter);
  }

  // \x1b of each byte or of a whole character, \u001b, two \u of a pair, or a letter.
  bool take_escape(std::string_view character, std::size_t letter) {
    if (take_bytes(character, 'x', letter)) return true;
    if (character.size() == 1 && take_named(character[0], letter)) return true;
    const std::int64_t code = code_of(character);
    if (text_[letter] == 'x' && code < 0x100 && hex_at(text_, letter + 1, 2) == code) {
      at_ = letter + 3;
      return true;
    }
    if (text_[letter] != 'u') return false;
    if (code < 0x10000) {
      if (hex_at(text_, letter + 1, 4) != code) return false;
      at_ = letter + 5;
      return true;
    }
    const std::size_t low = text_.find_first_not_of('\\', letter + 5);
    if (low == kNone || text_[low] != 'u' ||
        hex_at(text_, letter + 1, 4) != 0xD800 + ((code - 0x10000) >> 10) ||
        hex_at(text_, low + 1, 4) != 0xDC00 + (code & 0x3FF))
      return false;
    at_ = low + 5;
    return true;
  }

  bool take_named(char c, std::size_t letter) {
    constexpr std::string_view kNames = "abtnvfr";  // of 7 to 13
    const char name = c == '\x1b' ? 'e' : c >= 7 && c <= 13 ? kNames[static_cast<std::size_t>(c - 7)] : '\0';
    if (name == '\0' || text_[letter] != name) return false;
    at_ = letter + 1;
    return true;
  }

  // `sign` and two digits for each byte; before the sign of all but the first may be backslashes.
  bool take_bytes(std::string_view bytes, char sign, std::size_t from) {
    for (const char byte : bytes) {
      while (from < text_.size() && sign == 'x' && text_[from] == '\\') ++from;
      if (from >= text_.size() || text_[from] != sign) return false;
      if (hex_at(text_, from + 1, 2) != static_cast<unsigned char>(byte)) return false;
      from += 3;
    }
    at_ = from;
    return true;
  }

  bool take_backslash() {
    const std::size_t count = std::size_t{1} << depth_;
    for (std::size_t i = 0; i < count; ++i) {
      if (at_ + i >= text_.size() || text_[at_ + i] != '\\') return false;
    }
    at_ += count;
    return true;
  }

  bool skip_white() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_white(text_[at_])) ++at_;
    return at_ > begin;
  }

  const std::string_view text_;
  std::size_t at_;
  const std::size_t depth_;
  const bool is_address_;
};

std::size_t end_of_spelled(std::string_view text, std::size_t at, std::string_view value) {
  const char first = text[at];
  if (first != value[0] && first != '\\' && first != '%') return kNone;
  for (const bool is_address : {false, true}) {
    // The deepest first: with fewer, the rest of the last backslashes would stay.
    for (std::size_t depth = kDeepest + 1; depth-- > 0;) {
      const std::size_t end = Spelling(text, at, depth, is_address).end_of(value);
      if (end != kNone) return end;
    }
  }
  return kNone;
}

}  // namespace

std::string without_spelled(std::string_view text, std::string_view value, std::string_view with) {
  base::require(!value.empty(), "without_spelled", "a value");
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_spelled(text, at, value);
    if (end == kNone) {
      out += text[at++];
    } else {
      out += with;
      at = end;
    }
  }
  return out;
}

}  // namespace hone::commands
