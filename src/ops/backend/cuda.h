// The table of tensors on NVIDIA GPUs. A build has the folder cuda/ or, as every build today, no_cuda/.
#pragma once

#include "ops/backend/operators.h"

namespace hone::ops::backend {

// Null: this build has no kernels for CUDA, and tensors there take the reference.
const Operators* cuda_operators();

}  // namespace hone::ops::backend
