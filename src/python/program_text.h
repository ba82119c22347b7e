// The Python of this folder, embedded by the build: watcher.py and worker_base.py.
#pragma once

#include <string_view>

namespace hone::python {

extern const std::string_view kWatcherPython, kWorkerBasePython;

}  // namespace hone::python
