// Compiled for AVX2 (cmake/Folders.cmake); run only at a level that has them.
#if defined(__AVX2__)
#define HONE_NATIVE_LANES 8
#include "ops/backend/cpu/bodies/row_kernels_body.h"

namespace hone::ops {
const RowKernels* row_kernels_avx2() {
  return &kRowKernels;
}
}  // namespace hone::ops
#else
#include "ops/backend/cpu/row_kernels.h"

namespace hone::ops {
const RowKernels* row_kernels_avx2() {
  return nullptr;
}
}  // namespace hone::ops
#endif
