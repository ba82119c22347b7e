// From a mapped file into memory of our own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace hone::model {

// Copies numbers of type `stored`, as they lie in a mapped file, into `out`: contiguous, on the CPU, as many
// numbers, any float dtype. Large tensors take every thread. The pages that were copied are released.
void copy_stored(std::span<const std::byte> bytes, at::ScalarType stored, const at::Tensor& out);

}  // namespace hone::model
