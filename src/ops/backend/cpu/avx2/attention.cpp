// The attention kernels of bf16 for avx2. Compiled for it as a whole (cmake/Folders.cmake): nothing of std here.
#include "ops/backend/cpu/attention_kernels.h"

#if defined(__AVX2__)
#include "ops/backend/cpu/bodies/attention_backward_body.h"

namespace hone::ops::attention_kernels {

const Bf16Kernels* bf16_kernels_avx2() {
  return &kBf16Kernels;
}

}  // namespace hone::ops::attention_kernels

#else

namespace hone::ops::attention_kernels {

const Bf16Kernels* bf16_kernels_avx2() {
  return nullptr;
}

}  // namespace hone::ops::attention_kernels

#endif
