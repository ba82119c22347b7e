// The attention kernels of bf16 for avx512_bf16. Compiled for it as a whole (cmake/Folders.cmake): nothing of std here.
#include "ops/backend/cpu/attention_kernels.h"

#if defined(__AVX512BF16__)
#include "ops/backend/cpu/bodies/attention_backward_body.h"

namespace hone::ops::attention_kernels {

const Bf16Kernels* bf16_kernels_avx512_bf16() {
  return &kBf16Kernels;
}

}  // namespace hone::ops::attention_kernels

#else

namespace hone::ops::attention_kernels {

const Bf16Kernels* bf16_kernels_avx512_bf16() {
  return nullptr;
}

}  // namespace hone::ops::attention_kernels

#endif
