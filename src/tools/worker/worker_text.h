// The Python of the processes that run tools, embedded by the build: this folder's, and that of the package hone which they use.
#pragma once

#include <string_view>

namespace hone::tools {

extern const std::string_view kForkPython, kLoadingPython, kHostPython, kOwnersPython, kSchemasPython;
extern const std::string_view kToolsPython, kCalculatorPython, kOpenEnvPython, kPythonPython, kSandboxPython,
    kSqlitePython;  // hone.tools

}  // namespace hone::tools
