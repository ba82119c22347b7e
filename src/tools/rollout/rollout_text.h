// The Python of the process that runs a rollout function, embedded by the build: this folder's, and the check of what such a function
// returns, which the package hone has too.
#pragma once

#include <string_view>

namespace hone::tools {

extern const std::string_view kRolloutsPython, kRolloutPython;

}  // namespace hone::tools
