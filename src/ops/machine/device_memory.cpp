#include "ops/machine/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "ops/backend/operators.h"

namespace hone::ops {

DeviceMemory device_memory(at::Device device) {
  if (const auto of_host = backend::operators_of(device).memory) return of_host(device);
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
  const c10::DeviceIndex index = device.has_index() ? device.index() : c10::DeviceIndex{0};
  const auto held = allocator->getDeviceStats(index).reserved_bytes[0];  // of all its pools
  return {.free = static_cast<std::int64_t>(allocator->getMemoryInfo(index).first),
          .in_use = held.current,
          .peak = held.peak};
}

bool is_host(at::Device device) {
  return device.type() == c10::DeviceType::CPU;
}

}  // namespace hone::ops
