// Help, errors and lists in a narrow terminal: lines are broken at spaces, never within a word.
#pragma once

#include <string>
#include <string_view>

namespace hone::report {

// Each line that is wider than `columns`, broken below its own text: below what follows a gap of two spaces in its first
// half ("  found:  ..."), else four columns further in. A word that is wider than the terminal stays whole, and so do lines
// with escape sequences. `columns` 0 (no terminal) or below 20: as it is.
std::string fit_page(std::string_view page, int columns);

}  // namespace hone::report
