#include "config/reading/split_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/strings/utf8.h"

namespace hone::config {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 53;

[[noreturn]] void throw_bad_split(const std::string& text, const std::string& where) {
  throw base::UserError(
      {.where = where,
       .expected = "a split, or a part of one: train, train[:10%], train[100:200], train[-50:]",
       .found = fmt::format("'{}'", base::cut_text(text, 200)),
       .fix = "join parts with +, as in train[:10%]+test"});
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80U;
}

// \w+(\.\w+)*
bool is_split_name(std::string_view name) {
  bool begins = true;  // a word begins here
  for (const char c : name) {
    if (c == '.' && begins) return false;
    if (c != '.' && !is_name_char(c)) return false;
    begins = c == '.';
  }
  return !begins;
}

// "10", "-5", "1_000", "33%"; empty: no bound. `percent` is set by a percent sign.
std::optional<std::int64_t> bound_of(std::string_view word, bool& percent, bool& good) {
  if (word.ends_with('%')) {
    percent = true;
    word.remove_suffix(1);
    if (word.empty()) good = false;
  }
  if (word.empty()) return std::nullopt;
  std::string digits;
  for (const char c : word) {
    if (c != '_') digits += c;
  }
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  good = good && error == std::errc() && end == digits.data() + digits.size() && out <= kMostRows &&
         out >= -kMostRows;
  return out;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// Cuts a group in brackets off the end; empty when there is none. `there` says whether there was one.
std::string_view take_group(std::string_view& text, char open, char close, bool& there) {
  there = text.ends_with(close) && text.find(open) != std::string_view::npos;
  if (!there) return {};
  const std::size_t begin = text.find(open);
  const std::string_view inner = text.substr(begin + 1, text.size() - begin - 2);
  text = text.substr(0, begin);
  return inner;
}

base::RowPart parse_part(std::string_view text, const std::string& whole, const std::string& where) {
  base::RowPart out;
  bool rounded = false, sliced = false, good = true;
  const std::string_view rounding = take_group(text, '(', ')', rounded);
  const std::string_view slice = take_group(text, '[', ']', sliced);
  out.split = std::string(text);
  if (sliced) {
    const std::size_t colon = slice.find(':');
    good = colon != std::string_view::npos;
    out.slice.from = bound_of(slice.substr(0, colon), out.slice.percent, good);
    if (good) out.slice.to = bound_of(slice.substr(colon + 1), out.slice.percent, good);
  }
  if (rounded) {
    out.slice.drop_remainder = rounding == "pct1_dropremainder";
    good = good && out.slice.percent && (out.slice.drop_remainder || rounding == "closest");
  }
  const auto is_percent = [](const std::optional<std::int64_t>& bound) {
    return !bound || (*bound >= -100 && *bound <= 100);
  };
  good = good && (!out.slice.percent || (is_percent(out.slice.from) && is_percent(out.slice.to)));
  if (!good || !is_split_name(out.split)) throw_bad_split(whole, where);
  return out;
}

}  // namespace

std::vector<base::RowPart> parse_split(const std::string& text, const std::string& where) {
  std::vector<base::RowPart> out;
  std::string_view rest = text;
  while (true) {
    const std::size_t plus = rest.find('+');
    out.push_back(parse_part(trimmed(rest.substr(0, plus)), text, where));
    if (plus == std::string_view::npos) return out;
    rest.remove_prefix(plus + 1);
  }
}

}  // namespace hone::config
