#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/instructions.h"

namespace hone::ops::attention_kernels {

const Bf16Kernels* bf16_kernels() {
  switch (instructions()) {
    case Instructions::kPortable:
      return nullptr;
    case Instructions::kAvx2:
      return bf16_kernels_avx2();
    case Instructions::kAvx512:
      return bf16_kernels_avx512();
    case Instructions::kAvx512Bf16:
      break;
    case Instructions::kAmx:
      return bf16_kernels_amx();
  }
  return dot_products_are_fast() ? bf16_kernels_avx512_bf16() : bf16_kernels_avx512();
}

}  // namespace hone::ops::attention_kernels
