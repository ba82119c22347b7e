#include "base/process_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace hone::base {
namespace {

// These files have no size and may be absent: an empty text is an answer too.
std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream out;
  if (file) out << file.rdbuf();
  return out.str();
}

// The number after `key` at the beginning of a line: "VmHWM:  123 kB", "inactive_file 123".
std::optional<std::int64_t> number_after(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t digit = line.find_first_of("0123456789", key.size());
    if (digit == std::string::npos) return std::nullopt;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(line.data() + digit, line.data() + line.size(), value);
    if (error != std::errc()) return std::nullopt;  // v1's "no limit" overflows nothing, but who knows
    const bool kilobytes =
        std::string_view(end, line.data() + line.size()).find("kB") != std::string_view::npos;
    return kilobytes ? value * 1024 : value;
  }
  return std::nullopt;
}

struct CgroupFiles {
  const char *limit, *used, *reclaimable;
};
constexpr CgroupFiles kV1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr CgroupFiles kV2 = {"memory.max", "memory.current", "inactive_file "};

// Room in the group at root/path and in every one above it.
std::optional<std::int64_t> room(const fs::path& root, const std::string& path, const CgroupFiles& files) {
  std::optional<std::int64_t> least;
  for (fs::path group = fs::path(path).relative_path();; group = group.parent_path()) {
    const fs::path folder = root / group;
    const auto limit = number_after(text_of(folder / files.limit), "");
    const auto used = number_after(text_of(folder / files.used), "");
    if (limit && used) {  // v2 says "max" where there is none
      const std::int64_t cache = number_after(text_of(folder / "memory.stat"), files.reclaimable).value_or(0);
      const std::int64_t left = *limit - (*used - std::min(cache, *used));
      least = std::min(least.value_or(left), left);
    }
    if (group.empty()) return least;
  }
}

}  // namespace

ProcessMemory process_memory(const fs::path& proc) {
  const std::string status = text_of(proc / "self" / "status");
  ProcessMemory out;
  out.resident = number_after(status, "VmRSS:").value_or(0);
  if (const auto peak = number_after(status, "VmHWM:")) {
    out.peak = *peak;
    return out;
  }
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
#ifdef __APPLE__
    out.peak = static_cast<std::int64_t>(usage.ru_maxrss);
#else
    out.peak = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
#endif
  }
  return out;
}

std::int64_t free_memory(const fs::path& proc, const fs::path& cgroups) {
  std::int64_t free = number_after(text_of(proc / "meminfo"), "MemAvailable:").value_or(0);
  // "4:memory:/path" (v1) and "0::/path" (v2); inside a container the path may be the host's: then only the
  // root has files, and those are the container's.
  std::istringstream groups(text_of(proc / "self" / "cgroup"));
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    std::optional<std::int64_t> left;
    if (controllers == ",,") left = room(cgroups, path, kV2);
    if (controllers.find(",memory,") != std::string::npos) left = room(cgroups / "memory", path, kV1);
    if (left)
      free = free == 0 ? std::max<std::int64_t>(0, *left) : std::min(free, std::max<std::int64_t>(0, *left));
  }
  return free;
}

void release_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  // pages shared with neighbors come back when they are read
  const std::uintptr_t begin = address / page * page;
  if (!bytes.empty()) {
    ::madvise(reinterpret_cast<void*>(begin), address + bytes.size() - begin, MADV_DONTNEED);  // only a hint
  }
}

}  // namespace hone::base
