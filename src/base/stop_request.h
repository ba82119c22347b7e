// Whether the user has asked the run to stop (the first Ctrl-C, SIGTERM or SIGHUP): for code that waits for
// long outside the training loop, such as a reward whose endpoint is down.
#pragma once

#include <atomic>

namespace hone::base {

inline std::atomic<bool> stop_request = false;  // set by a signal handler, never reset

}  // namespace hone::base
