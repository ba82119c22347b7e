// The Python that reads scripts, embedded by the build: the files of this folder, in this order.
#pragma once

#include <string_view>

namespace hone::config {

extern const std::string_view kValuesPython, kFoldingPython, kExpressionsPython, kCallsPython, kScriptPython,
    kChangesPython, kParsersPython;

}  // namespace hone::config
