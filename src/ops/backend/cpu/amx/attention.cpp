// The attention kernels of bf16 for amx. Compiled for avx512_bf16 as a whole (cmake/Folders.cmake): nothing of std here.
#include "ops/backend/cpu/attention_kernels.h"

#if defined(__AVX512BF16__)
#define HONE_TILE_REGISTERS
#include "ops/backend/cpu/bodies/attention_backward_body.h"

namespace hone::ops::attention_kernels {

const Bf16Kernels* bf16_kernels_amx() {
  return &kBf16Kernels;
}

}  // namespace hone::ops::attention_kernels

#else

namespace hone::ops::attention_kernels {

const Bf16Kernels* bf16_kernels_amx() {
  return nullptr;
}

}  // namespace hone::ops::attention_kernels

#endif
