#include "base/files/mapped_files.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/files/file.h"

namespace hone::base {

namespace {

// A handler reads mapped_slots while others change them: `end` is 0 while a slot is not to be used.
struct MappedSlot {
  std::atomic<std::uintptr_t> begin = 0, end = 0;
  std::array<char, 1024> path{};
};
constexpr std::size_t kMappedSlots = 512;  // files beyond them are not looked after
std::array<MappedSlot, kMappedSlots> mapped_slots;
std::mutex mapped_mutex;

std::atomic<std::size_t> unreadable_bytes = 0;  // bytes of the file when it was mapped; 0: nothing was found
std::array<char, 1024> unreadable_path{};
std::atomic<bool> unreadable_noted = false;

}  // namespace

void note_mapped(const void* data, std::size_t size, const std::string& path) {
  const std::lock_guard lock(mapped_mutex);
  const auto free = std::find_if(mapped_slots.begin(), mapped_slots.end(),
                                 [](const MappedSlot& one) { return one.begin == 0; });
  if (free == mapped_slots.end()) return;
  const std::size_t length = std::min(path.size(), free->path.size() - 1);
  std::memcpy(free->path.data(), path.data(), length);
  free->path[length] = 0;
  free->begin = reinterpret_cast<std::uintptr_t>(data);
  free->end = free->begin + size;
}

void forget_mapped(const void* data) {
  const std::lock_guard lock(mapped_mutex);
  for (MappedSlot& one : mapped_slots) {
    if (one.begin != reinterpret_cast<std::uintptr_t>(data)) continue;
    one.end = 0;
    one.begin = 0;
    return;
  }
}

bool absorb_unreadable(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const MappedSlot& one : mapped_slots) {
    const std::uintptr_t begin = one.begin, end = one.end;
    if (begin == 0 || at < begin || at >= end) continue;
    if (!unreadable_noted.exchange(true)) {
      std::memcpy(unreadable_path.data(), one.path.data(), unreadable_path.size());
      unreadable_bytes = end - begin;
    }
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    void* const zeros = ::mmap(reinterpret_cast<void*>(at / page * page), page, PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return zeros != MAP_FAILED;
  }
  return false;
}

void require_readable() {
  const std::size_t bytes = unreadable_bytes.load(std::memory_order_acquire);
  if (bytes == 0) return;
  const fs::path path = unreadable_path.data();
  unreadable_bytes = 0;
  unreadable_noted = false;
  struct stat now{};
  const bool there = ::stat(path.c_str(), &now) == 0;
  const auto size = there ? static_cast<std::uint64_t>(now.st_size) : 0;
  ErrorText text{.where = path.string(),
                 .expected = "the " + std::to_string(bytes) + " bytes that it had when it was opened",
                 .found = {},
                 .cause = "it was written to while it was in use",
                 .fix = "put it back, and do not change files of a run: write a new file, and rename it"};
  if (!there) {
    text.found = std::strerror(errno);
  } else if (size < bytes) {
    text.found = std::to_string(size) + " bytes";
  } else {
    text.found = "a part of it that cannot be read";
    text.cause = "the disk has an error, or the file server does not answer; or it was shorter for a while";
    text.fix = "look at the kernel's log (dmesg), then continue";
  }
  throw UserError(std::move(text));
}

}  // namespace hone::base
