// How wide a text stands in a terminal, and texts cut to a width.
#pragma once

#include <string>
#include <string_view>

namespace hone::report {

// Columns of UTF-8 text without control characters: 2 for East Asian wide characters and emoji, 0 for
// combining marks and joiners, 1 for what is no UTF-8. Near enough for tables, not Unicode's whole table.
int columns_of(std::string_view text);

// `text` in one line of at most `columns`: control characters as base::printable shows them, newline and
// tab as \n and \t. What is too long loses its middle: "the answer … is 42".
std::string fit_line(std::string_view text, int columns);

}  // namespace hone::report
