// The Python of a reward worker, embedded by the build: endpoint.py and worker.py of this folder.
#pragma once

#include <string_view>

namespace hone::rewards {

extern const std::string_view kEndpointPython, kWorkerPython;

}  // namespace hone::rewards
