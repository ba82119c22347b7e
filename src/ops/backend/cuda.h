// The table of tensors on NVIDIA GPUs: hone's own kernels and libtorch's operators for CUDA (ops/backend/cuda).
#pragma once

#include <cstdint>

#include "ops/backend/operators.h"

namespace hone::ops::backend {

const Operators& cuda_operators();

// How often this process has started one of hone's own kernels (ops/backend/cuda/kernels).
std::int64_t own_kernels_started();

// While it lives, libtorch's operators compute in place of hone's own kernels; one at a time, while nothing else runs.
class WithoutOwnKernels {
 public:
  WithoutOwnKernels();
  ~WithoutOwnKernels();
  WithoutOwnKernels(const WithoutOwnKernels&) = delete;
  WithoutOwnKernels& operator=(const WithoutOwnKernels&) = delete;
};

}  // namespace hone::ops::backend
