// Compiled for AVX2 (CMakeLists.txt); run only where instructions() says so.
#if defined(__AVX2__)
#define HONE_NATIVE_LANES 8
#include "ops/cpu/row_kernels_body.h"

namespace hone::ops {
const RowKernels* row_kernels_avx2() {
  return &kRowKernels;
}
}  // namespace hone::ops
#else
#include "ops/cpu/row_kernels.h"

namespace hone::ops {
const RowKernels* row_kernels_avx2() {
  return nullptr;
}
}  // namespace hone::ops
#endif
