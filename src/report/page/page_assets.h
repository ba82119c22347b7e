// The page's parts: cmake/ReportPage.cmake embeds those of this folder, and uPlot.
#pragma once

#include <string_view>

namespace hone::report {

extern const std::string_view kPageFrame;   // page.html
extern const std::string_view kPageStyle;   // uPlot's, and page.css
extern const std::string_view kPageScript;  // uPlot with its licence, and page_*.js
// Of the two above, in hexadecimal digits: the page's policy allows nothing else.
extern const std::string_view kPageStyleSha256, kPageScriptSha256;

}  // namespace hone::report
