// The table of tensors on NVIDIA GPUs: libtorch's operators for CUDA (ops/backend/cuda).
#pragma once

#include "ops/backend/operators.h"

namespace hone::ops::backend {

const Operators& cuda_operators();

}  // namespace hone::ops::backend
