// The Python that runs a user's script with recorders, embedded by the build: recorded.py of this folder.
#pragma once

#include <string_view>

namespace hone::commands {

extern const std::string_view kRecordedPython;

}  // namespace hone::commands
