#include "ops/machine/device_memory.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "base/process/process_memory.h"

namespace hone::ops {

DeviceMemory device_memory(at::Device device) {
  if (is_host(device)) {
    const base::ProcessMemory process = base::process_memory();
    const base::FreeMemory free = base::free_memory_and_limit();
    return {.free = free.bytes, .in_use = process.resident, .peak = process.peak, .limit = free.limit};
  }
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
  const c10::DeviceIndex index = device.has_index() ? device.index() : c10::DeviceIndex{0};
  const auto held = allocator->getDeviceStats(index).reserved_bytes[0];  // of all its pools
  return {.free = static_cast<std::int64_t>(allocator->getMemoryInfo(index).first),
          .in_use = held.current,
          .peak = held.peak};
}

bool grows_by_pages(at::Device device) {
  return device.is_cuda() && c10::CachingAllocator::AcceleratorAllocatorConfig::use_expandable_segments();
}

void release_device_memory(at::Device device) {
  if (is_host(device)) return;
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
  allocator->emptyCache();
  allocator->resetPeakStats(device.has_index() ? device.index() : c10::DeviceIndex{0});
}

bool is_host(at::Device device) {
  return device.type() == c10::DeviceType::CPU;
}

}  // namespace hone::ops
