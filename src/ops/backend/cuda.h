// The table of tensors on NVIDIA GPUs: hone's own kernels and libtorch's operators for CUDA (ops/backend/cuda).
#pragma once

#include <string>

#include "ops/backend/operators.h"

namespace hone::ops::backend {

const Operators& cuda_operators();

// Why the library of hone's own kernels is not used; empty: it is. Looks for it the first time.
std::string own_kernels_missing();

}  // namespace hone::ops::backend
