#include "report/terminal/text_width.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <ranges>
#include <vector>

#include "report/terminal/terminal.h"

namespace hone::report {

namespace {

struct Range {
  std::uint32_t first, last;
};

constexpr std::array<Range, 10> kWide = {{{0x1100, 0x115F},
                                          {0x2E80, 0xA4CF},
                                          {0xAC00, 0xD7A3},
                                          {0xF900, 0xFAFF},
                                          {0xFE30, 0xFE6F},
                                          {0xFF00, 0xFF60},
                                          {0xFFE0, 0xFFE6},
                                          {0x1F300, 0x1F64F},
                                          {0x1F900, 0x1FAFF},
                                          {0x20000, 0x3FFFD}}};
constexpr std::array<Range, 5> kNoWidth = {
    {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2069}, {0xFE00, 0xFE0F}}};

template <std::size_t N>
bool among(const std::array<Range, N>& ranges, std::uint32_t point) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [point](const Range& range) { return point >= range.first && point <= range.last; });
}

// One character: its bytes in the text, its columns.
struct Character {
  std::size_t begin = 0, size = 1;
  int columns = 1;
};

Character character_at(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  Character out{.begin = at};
  if (lead < 0xC0) return out;
  std::uint32_t point = lead >= 0xF0 ? lead & 0x07U : lead >= 0xE0 ? lead & 0x0FU : lead & 0x1FU;
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  for (std::size_t i = 1; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(at + i < text.size() ? text[at + i] : 0);
    if ((byte & 0xC0U) != 0x80U) return out;  // torn: one byte, one column
    point = point << 6U | (byte & 0x3FU);
  }
  out.size = size;
  out.columns = among(kWide, point) ? 2 : among(kNoWidth, point) ? 0 : 1;
  return out;
}

std::vector<Character> characters(std::string_view text) {
  std::vector<Character> out;
  for (std::size_t at = 0; at < text.size(); at += out.back().size) out.push_back(character_at(text, at));
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char each : visible_controls(text)) {
    if (each == '\n') {
      out += "\\n";
    } else if (each == '\t') {
      out += "\\t";
    } else {
      out += each;
    }
  }
  return out;
}

}  // namespace

int columns_of(std::string_view text) {
  int out = 0;
  for (const Character& each : characters(text)) out += each.columns;
  return out;
}

std::string fit_line(std::string_view text, int columns) {
  std::string line = one_line(text);
  if (columns_of(line) <= columns) return line;
  if (columns < 2) return columns == 1 ? "…" : "";
  // Two thirds of the beginning, one third of the end, where answers stand.
  const int tail_columns = (columns - 1) / 3;
  int head_left = columns - 1 - tail_columns, tail_left = tail_columns;
  const std::vector<Character> all = characters(line);
  std::size_t head_end = 0;
  for (const Character& each : all) {
    head_left -= each.columns;
    if (head_left < 0) break;
    head_end = each.begin + each.size;
  }
  std::size_t tail_begin = line.size();
  for (const Character& each : std::views::reverse(all)) {
    tail_left -= each.columns;
    if (tail_left < 0) break;
    tail_begin = each.begin;
  }
  return line.substr(0, head_end) + "…" + line.substr(tail_begin);
}

std::size_t page_columns(int terminal_columns) {
  constexpr int kNarrow = 40, kPage = 110;
  return static_cast<std::size_t>(terminal_columns > kNarrow ? std::min(terminal_columns, kPage) : kPage);
}

}  // namespace hone::report
