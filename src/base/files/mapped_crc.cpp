#include "base/files/mapped_crc.h"

#include <algorithm>

#include "base/files/crc32c.h"
#include "base/files/release_pages.h"

namespace hone::base {

std::uint32_t mapped_crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0;
  while (!bytes.empty()) {
    const auto window = bytes.first(std::min(kReadWindow, bytes.size()));
    crc = crc32c(window, crc);
    release_pages(window);
    bytes = bytes.subspan(window.size());
  }
  return crc;
}

}  // namespace hone::base
