// Many matrices copied, or added, to others: what a device that pays for each call does in a few.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace hone::ops {

// out [rows, columns] = x, in out's dtype, or out += x with `add`. x has out's shape and device; rows may be strided.
struct BlockCopy {
  at::Tensor out, x;
  bool add = false;
};

// In no order: none reads or writes what another one writes.
void copy_blocks(std::span<const BlockCopy> all);

// True where many blocks are one call on this device; elsewhere callers need not gather them.
bool copies_blocks(at::Device device);

}  // namespace hone::ops
