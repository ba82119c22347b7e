#include "report/terminal/wrap_text.h"

#include "report/terminal/text_width.h"

namespace hone::report {

std::string wrap_text(std::string_view text, std::size_t indent, std::size_t columns) {
  const std::string margin(indent, ' ');
  std::string out;
  std::size_t used = indent;
  bool line_is_empty = true;
  const auto new_line = [&] {
    out += "\n" + margin;
    used = indent;
    line_is_empty = true;
  };
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      new_line();
      ++at;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const auto width = static_cast<std::size_t>(columns_of(word));
    if (!line_is_empty && used + 1 + width > columns) new_line();
    if (!line_is_empty) {
      out += ' ';
      used += 1;
    }
    out += word;
    used += width;
    line_is_empty = false;
    at = end < text.size() && text[end] == ' ' ? end + 1 : end;
  }
  return out;
}

}  // namespace hone::report
