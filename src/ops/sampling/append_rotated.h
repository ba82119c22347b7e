// A step of a sampler rotates its queries and keys and appends keys and values with these, before attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>

#include "ops/kv_tiles.h"
#include "ops/rope.h"

namespace hone::ops {

// Norms of the heads of queries and keys, [D] or undefined: none, and the rotation of both after them.
struct HeadRotation {
  at::Tensor q_norm, k_norm;
  double eps = 0;
  const RopeTable* table = nullptr;
};

// Calls rotate(), which is to do `rotation` in place, then append_all() with the keys and values of qkv [T, N + 2 K, D],
// which has a row's heads side by side. Where all of `rows` are in the same pages, hone's own kernels do both in one
// launch: queries are rotated in place, and keys only in their pages.
void append_rotated(std::span<const KvAppend> rows, const at::Tensor& qkv, const HeadRotation& rotation,
                    const std::function<void()>& rotate);

}  // namespace hone::ops
