#include "commands/process/spelled_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

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

// Where a value may stand: in a string with backslashes, in an address, or between single quotes of YAML.
enum class Place { kString, kAddress, kQuotes };

// Compares a value with a text from `at` on; `depth` strings are around it.
class Spelling {
 public:
  Spelling(std::string_view text, std::size_t at, std::size_t depth, Place place)
      : text_(text), at_(at), depth_(depth), place_(place) {}

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
    if (place_ == Place::kQuotes) return take_as_is(character == "'" ? "''" : character, at_);
    if (place_ == Place::kAddress && take_bytes(character, '%', at_)) return true;
    if (place_ == Place::kAddress && character == " " && text_.substr(at_, 1) == "+") return ++at_ != 0;
    if (character == "\\") return take_backslash();
    const std::size_t letter = text_.find_first_not_of('\\', at_);
    if (letter == kNone) return false;
    const std::size_t backslashes = letter - at_;
    if (backslashes >= std::size_t{1} << kDeepest) return false;
    if (take_as_is(character, letter)) return true;
    return backslashes > 0 && take_escape(character, letter);
  }

  bool take_as_is(std::string_view character, std::size_t from) {
    if (text_.substr(from, character.size()) != character) return false;
    at_ = from + character.size();
    return true;
  }

  // \x1b or \033 of each byte, \x1b of a whole character, \u001b, \U0000001b, two \u of a pair, or a letter.
  bool take_escape(std::string_view character, std::size_t letter) {
    if (take_bytes(character, 'x', letter) || take_octal(character, letter)) return true;
    const std::int64_t code = code_of(character);
    if (take_named(code, letter)) return true;
    for (const auto& [sign, digits] : {std::pair{'x', 2}, std::pair{'u', 4}, std::pair{'U', 8}}) {
      const auto size = static_cast<std::size_t>(digits);
      if (text_[letter] != sign || hex_at(text_, letter + 1, size) != code) continue;
      at_ = letter + 1 + size;
      return true;
    }
    return code >= 0x10000 && take_pair(code, letter);
  }

  bool take_pair(std::int64_t code, std::size_t letter) {
    if (text_[letter] != 'u') return false;
    const std::size_t low = text_.find_first_not_of('\\', letter + 5);
    if (low == kNone || text_[low] != 'u' ||
        hex_at(text_, letter + 1, 4) != 0xD800 + ((code - 0x10000) >> 10) ||
        hex_at(text_, low + 1, 4) != 0xDC00 + (code & 0x3FF))
      return false;
    at_ = low + 5;
    return true;
  }

  bool take_named(std::int64_t code, std::size_t letter) {
    constexpr std::array<std::pair<std::int64_t, char>, 13> kNames = {{{0, '0'},
                                                                       {7, 'a'},
                                                                       {8, 'b'},
                                                                       {9, 't'},
                                                                       {10, 'n'},
                                                                       {11, 'v'},
                                                                       {12, 'f'},
                                                                       {13, 'r'},
                                                                       {0x1b, 'e'},
                                                                       {0x85, 'N'},
                                                                       {0xa0, '_'},
                                                                       {0x2028, 'L'},
                                                                       {0x2029, 'P'}}};
    const auto is_it = [&](const auto& one) { return one.first == code && one.second == text_[letter]; };
    if (std::none_of(kNames.begin(), kNames.end(), is_it)) return false;
    at_ = letter + 1;
    return true;
  }

  // Three digits for each byte; before those of all but the first are backslashes.
  bool take_octal(std::string_view bytes, std::size_t from) {
    for (const char byte : bytes) {
      while (from < text_.size() && text_[from] == '\\') ++from;
      const auto code = static_cast<unsigned>(static_cast<unsigned char>(byte));
      const std::array<char, 3> digits = {static_cast<char>('0' + (code >> 6)),
                                          static_cast<char>('0' + (code >> 3 & 7)),
                                          static_cast<char>('0' + (code & 7))};
      if (text_.substr(from, 3) != std::string_view(digits.data(), digits.size())) return false;
      from += 3;
    }
    at_ = from;
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

  // A backslash before white space is a part of it: a line that YAML has folded, or a word of a shell.
  bool skip_white() {
    const std::size_t begin = at_;
    while (at_ < text_.size()) {
      const bool folded = text_[at_] == '\\' && at_ + 1 < text_.size() && is_white(text_[at_ + 1]);
      if (!folded && !is_white(text_[at_])) break;
      at_ += folded ? 2 : 1;
    }
    return at_ > begin;
  }

  const std::string_view text_;
  std::size_t at_;
  const std::size_t depth_;
  const Place place_;
};

std::size_t end_of_spelled(std::string_view text, std::size_t at, std::string_view value) {
  const char first = text[at];
  if (first != value[0] && first != '\\' && first != '%') return kNone;
  for (const Place place : {Place::kString, Place::kAddress, Place::kQuotes}) {
    // The deepest first: with fewer, the rest of the last backslashes would stay.
    for (std::size_t depth = kDeepest + 1; depth-- > 0;) {
      const std::size_t end = Spelling(text, at, depth, place).end_of(value);
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
