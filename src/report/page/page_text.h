// report.html: one file with its style, its script (uPlot and ours) and its data, which opens no connection.
#pragma once

#include <string>
#include <string_view>

namespace hone::report {

// `data` is JSON. In the page every byte of it that could end its element is escaped, and the Content-Security-Policy allows
// no script but the one that the program holds, by its hash.
std::string page_text(std::string_view data);

// Whether `text` begins as a page of hone does: only such a file is replaced.
bool is_page(std::string_view text);

// JSON whose value does not change, without <, >, & and U+2028, U+2029.
std::string json_for_script(std::string_view json);

std::string base64_of_hex(std::string_view hex);

}  // namespace hone::report
