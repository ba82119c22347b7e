// Copies from a mapped file into our own memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace hone::model {

// Copies numbers of type `stored` from a mapped file into `out`, which is contiguous, on the CPU, of the same
// size and any float dtype. Large tensors use all threads. The copied pages are released.
void copy_stored(std::span<const std::byte> bytes, at::ScalarType stored, const at::Tensor& out);

}  // namespace hone::model
