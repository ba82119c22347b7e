// What memory this process uses, and what it may use. Linux tells through /proc and cgroups; elsewhere only
// the peak is known (getrusage), and 0 stands for "not known".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file.h"

namespace hone::base {

struct ProcessMemory {
  std::int64_t resident = 0;  // bytes now: VmRSS
  std::int64_t peak = 0;      // most bytes since the process began: VmHWM, or ru_maxrss
};

ProcessMemory process_memory(const fs::path& proc = "/proc");

// Bytes that a process may still take without pushing others out: MemAvailable, or less where a cgroup (v1 or
// v2, the process's own or one above it) has less room; page cache that can be dropped counts as room.
std::int64_t free_memory(const fs::path& proc = "/proc", const fs::path& cgroups = "/sys/fs/cgroup");

// The pages of a mapped file's `bytes` no longer count as this process's; they are read
// again when they are touched.
void release_pages(std::span<const std::byte> bytes);

}  // namespace hone::base
