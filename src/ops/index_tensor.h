// An index tensor on a device from numbers on the host.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace hone::ops {

// [n] int64 on `device`: one copy from the host unless `device` is the CPU.
inline at::Tensor index_tensor(const std::vector<std::int64_t>& values, at::Device device) {
  return at::tensor(values, at::TensorOptions(at::kLong).device(device));
}

}  // namespace hone::ops
