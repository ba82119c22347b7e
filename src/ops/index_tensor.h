// What numbers of the host become on a device, without a wait for it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace hone::ops {

// `host`, a tensor of the CPU, on `device`: itself where that is the CPU. Elsewhere a copy in the order of the device's
// work, for which the host does not wait; CUDA reads it from pinned memory, since a copy from other memory waits.
inline at::Tensor staged(const at::Tensor& host, at::Device device) {
  if (device == host.device()) return host;
  const at::Tensor from = device.is_cuda() ? host.pin_memory() : host;
  return from.to(at::TensorOptions().device(device), /*non_blocking=*/true);
}

// [n] int64 on `device`: one staged copy unless `device` is the CPU.
inline at::Tensor index_tensor(const std::vector<std::int64_t>& values, at::Device device) {
  return staged(at::tensor(values, at::kLong), device);
}

// A list of structures, or of numbers, on `device`, in one staged copy: its bytes as numbers of `dtype`,
// whose size divides that of T.
template <typename T>
at::Tensor staged_list(const std::vector<T>& list, at::Device device, at::ScalarType dtype = at::kInt) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::size_t bytes = list.size() * sizeof(T);
  const at::Tensor host = at::empty({static_cast<std::int64_t>(bytes / c10::elementSize(dtype))}, dtype);
  if (bytes > 0) std::memcpy(host.mutable_data_ptr(), list.data(), bytes);
  return staged(host, device);
}

}  // namespace hone::ops
