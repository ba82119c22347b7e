// The width of text in a terminal, and cutting to a width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hone::report {

// Columns of UTF-8 text without control characters: 2 for East Asian wide characters and emoji, 0 for
// combining marks and joiners, 1 for bytes that are not UTF-8. An approximation for tables.
int columns_of(std::string_view text);

// `text` in one line of at most `columns`: control characters as base::printable shows them, newline and
// tab as \n and \t. Text that is too long is cut in the middle: "the answer … is 42".
std::string fit_line(std::string_view text, int columns);

// The width of a page of text: that of the terminal, at most 110; 110 where it is not known (0) or too narrow.
std::size_t page_columns(int terminal_columns);

}  // namespace hone::report
