#include "report/fit_page.h"

#include <algorithm>

#include "report/terminal/text_width.h"
#include "report/terminal/wrap_text.h"

namespace hone::report {

namespace {

constexpr int kNarrowest = 20;

std::string fit(std::string_view line, std::size_t columns) {
  const std::size_t lead = std::min(line.find_first_not_of(' '), line.size());
  std::size_t begin = 0;  // of the text after the last gap that is far enough to the left
  for (std::size_t gap = line.find("  ", lead); gap != std::string_view::npos && gap < columns / 2;) {
    const std::size_t after = line.find_first_not_of(' ', gap);
    if (after == std::string_view::npos || after > columns / 2) break;
    begin = after;
    gap = line.find("  ", after);
  }
  const std::string_view before = line.substr(0, begin);
  if (begin > 0 && columns_of(before) == static_cast<int>(begin))
    return std::string(before) + wrap_text(line.substr(begin), begin, columns);
  constexpr std::size_t kFurther = 4;
  return std::string(lead, ' ') + wrap_text(line.substr(lead), lead + kFurther, columns);
}

}  // namespace

std::string fit_page(std::string_view page, int columns) {
  if (columns < kNarrowest) return std::string(page);
  std::string out;
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t end = std::min(page.find('\n', at), page.size());
    const std::string_view line = page.substr(at, end - at);
    const bool stays = columns_of(line) <= columns || line.find('\x1b') != std::string_view::npos;
    out += stays ? std::string(line) : fit(line, static_cast<std::size_t>(columns));
    if (end < page.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

}  // namespace hone::report
