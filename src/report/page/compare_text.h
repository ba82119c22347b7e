// Two runs beside each other, for a terminal: what differs in their options, and their results.
#pragma once

#include <string>

#include "report/page/page_data.h"
#include "report/terminal/terminal.h"

namespace hone::report {

// Lines of at most 60 columns where the terminal is narrow; values of options are broken at spaces. Ends in a newline.
std::string compare_text(const PageRun& first, const PageRun& second, const Terminal& terminal);

}  // namespace hone::report
