// The Python that sends metrics to a logger, embedded by the build: logger.py of this folder.
#pragma once

#include <string_view>

namespace hone::report {

extern const std::string_view kLoggerPython;

}  // namespace hone::report
