// A quote that the end of the file closes.
#pragma once

#include <string>

namespace hone::config {

// yaml-cpp takes a quote that is never closed for closed at the end of the file, and all lines behind it for its
// text. UserError at the line on which such a text begins. `text` is one document that yaml-cpp parses.
void refuse_open_quote(const std::string& text, const std::string& file_name);

}  // namespace hone::config
