// AVX512-BF16: products of pairs (vdpbf16ps). Rows keep the form of avx512: vcvtneps2bf16 flushes subnormals, which is not our
// rounding.
#include "ops/backend/cpu/level.h"

namespace hone::ops {

LevelKernels avx512_bf16_level() {
#if defined(__AVX512BF16__)
  return {.attention_bf16 = attention_kernels::bf16_kernels_avx512_bf16(),
          .gemm_bf16 = kernels::gemm_kernels_dot(),
          .unpack_panel = kernels::unpack_panel_avx512_bf16};
#else
  return {};
#endif
}

}  // namespace hone::ops
