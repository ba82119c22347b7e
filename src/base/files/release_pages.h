// Memory that is not needed for now: pages of a mapped file, and what was freed.
#pragma once

#include <cstddef>
#include <span>

namespace hone::base {

// Mapped files are read in windows of this size where all of a file is read once.
inline constexpr std::size_t kReadWindow = std::size_t{16} << 20;

// The pages that hold `bytes`, of a read-only mapping of a file (base::MappedFile), no longer count as this process's memory. The
// bytes stay readable: they are taken from the file again.
void release_pages(std::span<const std::byte> bytes);

// What malloc and kept_blocks() keep of freed memory goes back to the system.
void return_freed_memory();

}  // namespace hone::base
