// The checksum of a mapped file that is read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hone::base {

// crc32c() of `bytes`, of a read-only mapping of a file (base::MappedFile), in windows: at most kReadWindow of it counts as this
// process's memory at a time.
std::uint32_t mapped_crc32c(std::span<const std::byte> bytes);

}  // namespace hone::base
