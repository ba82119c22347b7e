#include "base/gguf/kept_blocks.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

namespace hone::base {
namespace {

bool may_keep() {
#if defined(__SANITIZE_ADDRESS__)
  return false;  // AddressSanitizer should see every use of what was freed
#else
  rlimit addresses{}, data{};
  if (::getrlimit(RLIMIT_AS, &addresses) != 0 || ::getrlimit(RLIMIT_DATA, &data) != 0) return true;
  return addresses.rlim_cur == RLIM_INFINITY && data.rlim_cur == RLIM_INFINITY;
#endif
}

constexpr std::size_t kWaste = 16;  // a block may be larger than what is asked for by this part

}  // namespace

KeptBlocks::KeptBlocks() : keeps_(may_keep()) {}

void* KeptBlocks::take_kept(std::size_t bytes, std::size_t& found) {
  const auto fits = [&](const Block& block) {
    return block.bytes >= bytes && block.bytes - bytes <= bytes / kWaste;
  };
  auto best = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (fits(*it) && (best == kept_.end() || it->bytes < best->bytes)) best = it;
  }
  if (best == kept_.end()) return nullptr;
  const Block block = *best;
  kept_.erase(best);
  sizes_.kept -= block.bytes;
  found = block.bytes;
  return block.memory;
}

void KeptBlocks::free_oldest_beyond(std::size_t bytes) {
  while (!kept_.empty() && sizes_.live + sizes_.kept > bytes) {
    std::free(kept_.front().memory);
    sizes_.kept -= kept_.front().bytes;
    kept_.pop_front();
  }
}

KeptBlocks::Block KeptBlocks::take(std::size_t bytes) {
  if (bytes < kCounted) return {std::malloc(bytes), bytes, true};
  const std::scoped_lock lock(mutex_);
  Block out{nullptr, bytes, false};
  if (bytes >= kKept) out.memory = take_kept(bytes, out.bytes);
  const std::size_t most_before = sizes_.most_live;
  sizes_.live += out.bytes;
  sizes_.most_live = std::max(sizes_.most_live, sizes_.live);
  if (out.memory != nullptr) return out;
  free_oldest_beyond(sizes_.most_live);
  out.is_new = true;
  out.memory = std::malloc(bytes);
  if (out.memory == nullptr) {  // what is kept may be enough
    free_oldest_beyond(0);
    out.memory = std::malloc(bytes);
  }
  if (out.memory == nullptr) {
    sizes_.live -= bytes;
    sizes_.most_live = most_before;
  }
  return out;
}

void KeptBlocks::release(void* memory, std::size_t bytes) {
  if (bytes < kCounted) return std::free(memory);
  const std::scoped_lock lock(mutex_);
  sizes_.live -= bytes;
  if (!keeps_ || bytes < kKept) return std::free(memory);
  kept_.push_back({memory, bytes, false});
  sizes_.kept += bytes;
}

void KeptBlocks::return_kept() {
  const std::scoped_lock lock(mutex_);
  free_oldest_beyond(0);
  sizes_.most_live = sizes_.live;
}

KeptBlocks::Sizes KeptBlocks::sizes() const {
  const std::scoped_lock lock(mutex_);
  return sizes_;
}

KeptBlocks& kept_blocks() {
  static auto& blocks = *new KeptBlocks;
  return blocks;
}

}  // namespace hone::base
