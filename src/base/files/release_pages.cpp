#include "base/files/release_pages.h"

#include <sys/mman.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <cstdint>

#include "base/gguf/kept_blocks.h"
#include "base/process/page_size.h"

namespace hone::base {

void release_pages(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::uintptr_t page = page_size();
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
  // Whole pages: neighbors on the first and the last come back from the file too. The advice may fail.
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin,
                  MADV_DONTNEED);  // NOLINT(performance-no-int-to-ptr)
}

void return_freed_memory() {
  kept_blocks().return_kept();
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

}  // namespace hone::base
