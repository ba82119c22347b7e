// The memory of the device that weights and passes are on.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace hone::ops {

// In bytes. On the CPU: of the machine and of the whole process (base/process/process_memory.h). On other devices: of
// libtorch's allocator, whose cached blocks count as in use.
struct DeviceMemory {
  std::int64_t free = 0;    // 0: not known
  std::int64_t in_use = 0;  // by this process
  std::int64_t peak = 0;    // of in_use
  std::string limit = {};   // what bounds `free` when it is not the machine: "`ulimit -v` of 3.00 GB"
};
DeviceMemory device_memory(at::Device device);

// Says whether libtorch's allocator maps the memory of a card page by page at addresses that it has reserved ("expandable segments"), so
// that free places side by side are one. Otherwise it takes blocks from the driver, and a tensor has to fit into one.
bool grows_by_pages(at::Device device);

// Gives what libtorch's allocator keeps back to the device, and resets its peak. On the CPU it does nothing.
void release_device_memory(at::Device device);

// Whether tensors of the device lie in this process's own memory: a file can be mapped there, and pointers can be read.
// Not a question about kernels: which one runs is the business of ops/backend/operators.h.
bool is_host(at::Device device);

}  // namespace hone::ops
