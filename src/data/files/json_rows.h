// The rows of JSON Lines as datasets reads them: one object a line, several one after another, or one over
// several lines.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/files/file.h"
#include "data/files/file_text.h"

namespace hone::data {

// take(text of the row, the 1-based line at which it begins); false stops. Blank lines are left out. An
// object that its line does not close goes on in the next one. What cannot be a row is given to the end of
// its line, or, of an object that is not closed where the next one begins, to the end of the line before it:
// its parser says what is wrong there. UserError as for_each_line.
void for_each_json_row(FileText text, const base::fs::path& path,
                       const std::function<bool(std::string_view, std::int64_t)>& take);

}  // namespace hone::data
