// The Python that runs lm-eval against a server, embedded by the build: lm_eval.py of this folder.
#pragma once

#include <string_view>

namespace hone::commands {

extern const std::string_view kLmEvalPython;

}  // namespace hone::commands
