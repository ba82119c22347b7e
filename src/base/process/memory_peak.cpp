#include "base/process/memory_peak.h"

#include <fstream>

namespace hone::base {

bool reset_memory_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << '5';  // VmHWM becomes the resident size (proc(5))
  return static_cast<bool>(file.flush());
}

}  // namespace hone::base
