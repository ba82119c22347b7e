// Wraps text to a width.
#pragma once

#include <string>
#include <string_view>

namespace hone::report {

// `text` broken at spaces so that no line is wider than `columns`; lines after the first begin with `indent`
// spaces, which count, and the first with nothing, though `indent` is counted for it too. Newlines in `text`
// are kept. No newline at the end.
std::string wrap_text(std::string_view text, std::size_t indent, std::size_t columns);

}  // namespace hone::report
