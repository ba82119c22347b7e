// What ops/machine/team asks of libtorch, for the ThreadSanitizer build: libtorch and libgomp are not instrumented,
// and their threads would be reported as races of ours.
#pragma once

#include <cstdint>

namespace at {

inline std::int64_t get_num_threads() {
  return 4;
}
inline bool in_parallel_region() {
  return false;
}

}  // namespace at
