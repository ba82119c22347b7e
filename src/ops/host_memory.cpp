#include "ops/host_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace hone::ops {
namespace {

constexpr std::size_t kAlignment = 64;   // libtorch's own: a cache line, a register of avx512
constexpr std::uint8_t kPriority = 100;  // above libtorch's default

class HostAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, cpu};
    void* block = bytes > SIZE_MAX - kAlignment ? nullptr : std::malloc(bytes + kAlignment);
    if (block == nullptr) {
      throw base::UserError(
          {.where = "memory",
           .expected = base::human_bytes(bytes) + " for one tensor",
           .found = "the system has no more",
           .cause = "the run takes more memory than is free",
           .fix = "lower per_device_train_batch_size or max_length, or end other programs"});
    }
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    void* data = reinterpret_cast<void*>((address + kAlignment - 1) & ~(kAlignment - 1));
    return {data, block, &std::free, cpu};
  }
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
