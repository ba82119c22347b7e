// Numbers that the host has, as an index of a device's operators: made where it is used.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace hone::ops {

// [n] int64 on `device`: one copy from the host where that is not the CPU.
inline at::Tensor index_tensor(const std::vector<std::int64_t>& values, at::Device device) {
  return at::tensor(values, at::TensorOptions(at::kLong).device(device));
}

}  // namespace hone::ops
