#include "base/gguf/kept_blocks.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "base/process/address_sanitizer.h"
#include "base/process/page_size.h"

namespace hone::base {
namespace {

bool may_keep() {
  if (kHasAddressSanitizer) return false;
  int overcommit = 0;
  if (std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommit && overcommit == 2) return false;
  rlimit addresses{}, data{};
  if (::getrlimit(RLIMIT_AS, &addresses) != 0 || ::getrlimit(RLIMIT_DATA, &data) != 0) return true;
  return addresses.rlim_cur == RLIM_INFINITY && data.rlim_cur == RLIM_INFINITY;
}

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t whole(std::size_t bytes, std::size_t page) {
  return (bytes + page - 1) / page * page;
}

}  // namespace

KeptBlocks::KeptBlocks(std::size_t over) : keeps_(may_keep()), over_(over) {}

KeptBlocks::Block KeptBlocks::take(std::size_t bytes) {
  if (bytes < kCounted) return {std::malloc(bytes), bytes, true};
  if (bytes > PTRDIFF_MAX / 4) return {};
  const std::scoped_lock lock(mutex_);
  if (keeps_) bytes = whole(bytes, page_size());
  const std::size_t most_before = sizes_.most_live;
  const bool has_room = sizes_.live + sizes_.kept + bytes <= sizes_.most_live + over_;
  sizes_.live += bytes;
  sizes_.most_live = std::max(sizes_.most_live, sizes_.live);
  Block out = of_kept(bytes, has_room);
  if (out.memory == nullptr) out = of_new(bytes);
  if (out.memory == nullptr) {
    sizes_.live -= bytes;
    sizes_.most_live = most_before;
  }
  return out;
}

KeptBlocks::Block KeptBlocks::of_kept(std::size_t bytes, bool has_room) {
  const auto found = nearest(bytes, has_room);
  if (found == kept_.end()) return {};
  void* const memory = found->memory;
  Mapping& mapping = live_[memory] = *found;
  kept_.erase(found);
  mapping.used = bytes;
  sizes_.kept -= std::min(mapping.written, bytes);  // what is left is a tail
  free_beyond(sizes_.most_live + over_);
  if (bytes <= mapping.written) return {memory, bytes, false};
  if (::mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0) {
    mapping.written = bytes;
    return {memory, bytes, true};
  }
  (void)::munmap(memory, mapping.addresses);
  live_.erase(memory);
  return {};
}

KeptBlocks::Block KeptBlocks::of_new(std::size_t bytes) {
  free_beyond(sizes_.most_live + over_);
  if (!kept_.empty() && live_.size() + kept_.size() >= kMostMappings) free_oldest();
  Mapping mapping = mapped(bytes);
  if (mapping.memory == nullptr && live_.size() < kMostMappings) {  // what is kept may be enough
    free_beyond(0);
    mapping = mapped(bytes);
  }
  if (mapping.memory == nullptr) return {std::malloc(bytes), bytes, true};
  live_[mapping.memory] = mapping;
  return {mapping.memory, bytes, true};
}

// Addresses that nobody may use yet count nowhere.
KeptBlocks::Mapping KeptBlocks::mapped(std::size_t bytes) const {
  if (!keeps_ || live_.size() + kept_.size() >= kMostMappings) return {};
  const std::size_t addresses = bytes < 2 * kHugePage ? 2 * bytes : whole(2 * bytes, kHugePage);
  void* const memory = ::mmap(nullptr, addresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  if (::mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0) return {memory, addresses, bytes, bytes};
  (void)::munmap(memory, addresses);
  return {};
}

// The smallest that is large enough, or else the largest that may grow; none of more than twice or less than
// half. Where there is room for a new one, it has to be nearer.
std::deque<KeptBlocks::Mapping>::iterator KeptBlocks::nearest(std::size_t bytes, bool has_room) {
  const std::size_t off = has_room ? bytes / 16 : bytes / 2, over = has_room ? bytes / 16 : bytes;
  auto best = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->addresses < bytes || it->written + off < bytes || it->written > bytes + over) continue;
    const bool is_better =
        best == kept_.end() || (it->written >= bytes ? best->written < bytes || it->written < best->written
                                                     : it->written > best->written);
    if (is_better) best = it;
  }
  return best;
}

// The pages after the first `left` bytes, in whole ones of this size, go back. Nobody may use them then, or
// else the system could fill a huge page with them again by itself.
void KeptBlocks::free_end(Mapping& mapping, std::size_t left, std::size_t page) {
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping.memory);
  left = whole(begin + left, page) - begin;
  if (left >= mapping.written) return;
  const std::size_t end = mapping.written - left;
  std::byte* const tail = static_cast<std::byte*>(mapping.memory) + left;
  if (::madvise(tail, end, MADV_DONTNEED) != 0) return;
  (void)::mprotect(tail, end, PROT_NONE);
  mapping.written = left;
  sizes_.kept -= end;
}

void KeptBlocks::free_oldest() {
  const Mapping& oldest = kept_.front();
  (void)::munmap(oldest.memory, oldest.addresses);
  sizes_.kept -= oldest.written;
  kept_.pop_front();
}

// Tails go after kept blocks; parts of huge pages, which the system may keep for a while, after all else.
void KeptBlocks::free_beyond(std::size_t bytes) {
  const auto excess = [&] {
    const std::size_t all = sizes_.live + sizes_.kept;
    return all > bytes ? all - bytes : 0;
  };
  while (!kept_.empty() && excess() > 0) {
    Mapping& oldest = kept_.front();
    if (oldest.written > excess() + kHugePage)
      free_end(oldest, oldest.written - excess() - kHugePage, kHugePage);
    if (excess() > 0) free_oldest();
  }
  for (const std::size_t page : {kHugePage, page_size()}) {
    if (sizes_.kept == 0) return;
    for (auto& [memory, mapping] : live_) {
      if (excess() == 0) return;
      free_end(mapping, mapping.used, page);
    }
  }
}

void KeptBlocks::release(void* memory, std::size_t bytes) {
  if (bytes < kCounted) return std::free(memory);
  const std::scoped_lock lock(mutex_);
  sizes_.live -= bytes;
  const auto found = live_.find(memory);
  if (found == live_.end()) return std::free(memory);
  kept_.push_back(found->second);
  live_.erase(found);
  sizes_.kept += bytes;
}

void KeptBlocks::return_kept() {
  const std::scoped_lock lock(mutex_);
  free_beyond(0);
  sizes_.most_live = sizes_.live;
}

KeptBlocks::Sizes KeptBlocks::sizes() const {
  const std::scoped_lock lock(mutex_);
  return sizes_;
}

KeptBlocks& kept_blocks() {
  static auto& blocks = *new KeptBlocks(KeptBlocks::kOver);
  return blocks;
}

}  // namespace hone::base
