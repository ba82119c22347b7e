#include "ops/machine/host_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/files/file.h"
#include "base/gguf/kept_blocks.h"
#include "base/process/page_size.h"
#include "base/process/process_memory.h"

namespace hone::ops {
namespace {

constexpr std::size_t kAlignment = 64;   // libtorch's own: a cache line, a register of avx512
constexpr std::uint8_t kPriority = 100;  // above libtorch's default

// The block lies in front of the data, so that the data are enough to free it (c10's raw_allocate wants
// that).
struct Header {
  void* memory;
  std::size_t bytes;
};
constexpr std::size_t kRoom = kAlignment + sizeof(Header);

void free_data(void* data) {
  if (data == nullptr) return;
  const Header header = static_cast<Header*>(data)[-1];
  base::kept_blocks().release(header.memory, header.bytes);
}

constexpr std::size_t kHugePage = 2 << 20;

// Large blocks in pages of 2 MB where the kernel gives them for the asking: fewer page faults when they are
// first written, fewer misses when they are read again. It is asked for all whole pages of the block at once,
// which stay one range of the kernel's, and makes huge ones only inside: nothing more becomes resident.
void ask_for_huge_pages([[maybe_unused]] const base::KeptBlocks::Block& block) {
#if defined(__linux__)
  const std::uintptr_t page = base::page_size();
  const auto address = reinterpret_cast<std::uintptr_t>(block.memory);
  const std::uintptr_t begin = (address + page - 1) / page * page;
  const std::uintptr_t end = (address + block.bytes) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // only a hint
#endif
}

class HostAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, cpu};
    const base::KeptBlocks::Block block =
        bytes > SIZE_MAX - kRoom ? base::KeptBlocks::Block{} : base::kept_blocks().take(bytes + kRoom);
    if (block.memory == nullptr) {
      const std::string limit = base::free_memory_and_limit().limit;
      throw base::UserError({.where = "memory",
                             .expected = base::human_bytes(bytes) + " for one tensor (MEM-01)",
                             .found = limit.empty() ? "the system has no memory left" : limit + " is reached",
                             .cause = "the run needs more memory than " +
                                      (limit.empty() ? std::string("is free") : "that limit gives it"),
                             .fix = "lower per_device_train_batch_size or max_length, or " +
                                    std::string(limit.empty() ? "end other programs" : "raise that limit")});
    }
    const auto address = reinterpret_cast<std::uintptr_t>(block.memory) + kRoom;
    if (block.is_new && bytes >= 2 * kHugePage) ask_for_huge_pages(block);
    void* data = reinterpret_cast<void*>(address & ~(kAlignment - 1));
    static_cast<Header*>(data)[-1] = {block.memory, block.bytes};
    return {data, data, &free_data, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_data; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

void use_host_memory() {
  static HostAllocator allocator;
  c10::SetCPUAllocator(&allocator, kPriority);
}

}  // namespace hone::ops
