// AMX: products of tiles (tdpbf16ps).
#include "ops/backend/cpu/level.h"

namespace hone::ops {

LevelKernels amx_level() {
#if defined(__AVX512BF16__)
  return {.attention_bf16 = attention_kernels::bf16_kernels_amx(), .gemm_bf16 = kernels::gemm_kernels_amx()};
#else
  return {};
#endif
}

}  // namespace hone::ops
