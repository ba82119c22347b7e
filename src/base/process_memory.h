// The memory that this process uses, and that it may use. Read from /proc and cgroups on Linux; elsewhere
// only the peak is known (getrusage), and 0 means "not known".
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

// Bytes that this process can still allocate without swapping: MemAvailable, or less when a cgroup (v1 or v2,
// the process's own or a parent) has a lower limit. Page cache that can be dropped counts as free.
std::int64_t free_memory(const fs::path& proc = "/proc", const fs::path& cgroups = "/sys/fs/cgroup");

// Drops the pages of a mapped file's `bytes` from this process's resident memory; they are read again on
// access.
void release_pages(std::span<const std::byte> bytes);

}  // namespace hone::base
