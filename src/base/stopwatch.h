// Elapsed time on the steady clock.
#pragma once

#include <chrono>

namespace hone::base {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace hone::base
