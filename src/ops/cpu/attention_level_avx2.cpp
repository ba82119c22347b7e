// The attention kernels of bf16 for avx2. Compiled for it as a whole (CMakeLists.txt): nothing of std here.
#include "ops/cpu/attention_kernels.h"

#if defined(__AVX2__)
#include "ops/cpu/attention_backward_body.h"

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
