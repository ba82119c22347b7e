// Compiled for AVX-512 (cmake/Folders.cmake); run only at a level that has them.
#if defined(__AVX512F__)
#define HONE_NATIVE_LANES 16
// all lanes, rounded to nearest
#define HONE_FMA(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, static_cast<unsigned short>(-1), 4)
#include "ops/backend/cpu/bodies/delta_rule_body.h"

namespace hone::ops::delta {
const Kernels* kernels_avx512() {
  return &kKernels;
}
}  // namespace hone::ops::delta
#else
#include "ops/backend/cpu/delta_rule_kernels.h"

namespace hone::ops::delta {
const Kernels* kernels_avx512() {
  return nullptr;
}
}  // namespace hone::ops::delta
#endif
