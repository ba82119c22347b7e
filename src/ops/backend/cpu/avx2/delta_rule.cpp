// Compiled for AVX2 and fma (cmake/Folders.cmake); run only at a level that has them.
#if defined(__AVX2__) && defined(__FMA__)
#define HONE_NATIVE_LANES 8
#define HONE_FMA(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)
#include "ops/backend/cpu/bodies/delta_rule_body.h"

namespace hone::ops::delta {
const Kernels* kernels_avx2() {
  return &kKernels;
}
}  // namespace hone::ops::delta
#else
#include "ops/backend/cpu/delta_rule_kernels.h"

namespace hone::ops::delta {
const Kernels* kernels_avx2() {
  return nullptr;
}
}  // namespace hone::ops::delta
#endif
