// A step of a sampler rotates and norms heads of queries and keys before attention.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/rope.h"

namespace hone::ops {

// Norms of the heads of queries and keys, [D] or undefined: none, and the rotation of both after them.
struct HeadRotation {
  at::Tensor q_norm, k_norm;
  double eps = 0;
  const RopeTable* table = nullptr;
};

}  // namespace hone::ops
