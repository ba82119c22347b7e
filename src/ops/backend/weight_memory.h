// The kernels of a backend read a packed Weight with these.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/backend/layouts.h"
#include "ops/weight.h"

namespace hone::ops {

class WeightMemory {
 public:
  static const at::Tensor& packed(const Weight& weight) { return weight.packed_; }
  static const backend::WeightLayout* layout(const Weight& weight) { return weight.layout_; }
};

}  // namespace hone::ops
