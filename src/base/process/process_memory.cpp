#include "base/process/process_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "base/gguf/kept_blocks.h"

namespace hone::base {
namespace {

std::int64_t kept_bytes() {
  return static_cast<std::int64_t>(kept_blocks().sizes().kept);
}

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

// Room below one limit.
struct Room {
  std::int64_t left = 0, limit = 0;
  std::string where;
};

// The group at root/path, or the one above it with the least room.
std::optional<Room> room(const fs::path& root, const std::string& path, const CgroupFiles& files) {
  std::optional<Room> least;
  for (fs::path group = fs::path(path).relative_path();; group = group.parent_path()) {
    const fs::path folder = root / group;
    const auto limit = number_after(text_of(folder / files.limit), "");
    const auto used = number_after(text_of(folder / files.used), "");
    if (limit && used) {  // v2 says "max" where there is none
      const std::int64_t cache = number_after(text_of(folder / "memory.stat"), files.reclaimable).value_or(0);
      const std::int64_t left = *limit - (*used - std::min(cache, *used));
      if (!least || left < least->left)
        least = Room{.left = left, .limit = *limit, .where = "/" + group.string()};
    }
    if (group.empty()) return least;
  }
}

FreeMemory lesser(const FreeMemory& found, const std::string& limit, std::int64_t left) {
  left = std::max<std::int64_t>(0, left);
  if (found.bytes != 0 && found.bytes <= left) return found;
  return {.bytes = left, .limit = limit};
}

// `ulimit -v` and `-d` bound addresses, of which a process has more than it touches: its libraries, mapped
// files, the stacks of its threads. What is left of them is what it can still allocate.
FreeMemory below_address_limits(FreeMemory found, const fs::path& proc) {
  struct AddressLimit {
    const char *row, *used, *option;
  };
  constexpr AddressLimit kLimits[] = {{"Max address space", "VmSize:", "-v"},
                                      {"Max data size", "VmData:", "-d"}};
  const std::string limits = text_of(proc / "self" / "limits"), status = text_of(proc / "self" / "status");
  for (const AddressLimit& one : kLimits) {
    const std::size_t row = limits.find(one.row);
    if (row == std::string::npos) continue;
    std::istringstream columns(limits.substr(row + std::string_view(one.row).size()));
    const auto used = number_after(status, one.used);
    std::int64_t limit = 0;                      // the soft one comes first
    if (!used || !(columns >> limit)) continue;  // "unlimited"
    found = lesser(found, "`ulimit " + std::string(one.option) + "` of " + gigabytes(limit), limit - *used);
  }
  return found;
}

}  // namespace

ProcessMemory process_memory(const fs::path& proc) {
  const std::string status = text_of(proc / "self" / "status");
  ProcessMemory out;
  out.resident = std::max<std::int64_t>(number_after(status, "VmRSS:").value_or(0) - kept_bytes(), 0);
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

FreeMemory free_memory_and_limit(const fs::path& proc, const fs::path& cgroups) {
  FreeMemory out = {.bytes = number_after(text_of(proc / "meminfo"), "MemAvailable:").value_or(0)};
  // "4:memory:/path" (v1) and "0::/path" (v2); inside a container the path may be the host's: then only the
  // root has files, and those are the container's.
  std::istringstream groups(text_of(proc / "self" / "cgroup"));
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    std::optional<Room> left;
    if (controllers == ",,") left = room(cgroups, path, kV2);
    if (controllers.find(",memory,") != std::string::npos) left = room(cgroups / "memory", path, kV1);
    if (!left) continue;
    out = lesser(out, "the cgroup limit of " + gigabytes(left->limit) + " (" + left->where + ")", left->left);
  }
  out = below_address_limits(std::move(out), proc);
  if (out.bytes > 0) out.bytes += kept_bytes();
  return out;
}

std::int64_t free_memory(const fs::path& proc, const fs::path& cgroups) {
  return free_memory_and_limit(proc, cgroups).bytes;
}

}  // namespace hone::base
