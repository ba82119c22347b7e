// The memory that this process uses, and that it may use. Read from /proc and cgroups on Linux; elsewhere
// only the peak is known (getrusage), and 0 means "not known".
#pragma once

#include <cstdint>
#include <string>

#include "base/files/file.h"
#include "base/files/release_pages.h"

namespace hone::base {

struct ProcessMemory {
  std::int64_t resident = 0;  // bytes now: VmRSS without what kept_blocks() keeps for tensors to come
  std::int64_t peak = 0;      // most bytes since the process began: VmHWM, or ru_maxrss
};

ProcessMemory process_memory(const fs::path& proc = "/proc");

struct FreeMemory {
  std::int64_t bytes = 0;
  // Names what bounds it: "the cgroup limit of 2.00 GB (/job)", "`ulimit -v` of 3.00 GB"; empty: the machine.
  std::string limit = {};
};

// Bytes that this process can still allocate without swapping: MemAvailable, or less when a cgroup (v1 or v2,
// the process's own or a parent) or a limit on its addresses (`ulimit -v`, `ulimit -d`) leaves less. Page
// cache that can be dropped counts as free, and so does what kept_blocks() keeps.
FreeMemory free_memory_and_limit(const fs::path& proc = "/proc", const fs::path& cgroups = "/sys/fs/cgroup");
std::int64_t free_memory(const fs::path& proc = "/proc", const fs::path& cgroups = "/sys/fs/cgroup");

}  // namespace hone::base
