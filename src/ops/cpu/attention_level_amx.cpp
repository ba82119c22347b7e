// The attention kernels of bf16 for amx. Compiled for avx512_bf16 as a whole (CMakeLists.txt): nothing of std here.
#include "ops/cpu/attention_kernels.h"

#if defined(__AVX512BF16__)
#define HONE_TILE_REGISTERS
#include "ops/cpu/attention_backward_body.h"

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
