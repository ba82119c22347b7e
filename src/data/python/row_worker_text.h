// The Python of row_function's worker, embedded by the build: row_worker.py of this folder.
#pragma once

#include <string_view>

namespace hone::data {

extern const std::string_view kRowWorkerPython;

}  // namespace hone::data
