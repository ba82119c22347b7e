// AVX2 with fma.
#include "ops/backend/cpu/level.h"

namespace hone::ops {

LevelKernels avx2_level() {
#if defined(__AVX2__)
  return {.rows = row_kernels_avx2(),
          .delta = delta::kernels_avx2(),
          .attend = attention_kernels::forward_avx2,
          .attention_bf16 = attention_kernels::bf16_kernels_avx2(),
          .gemm_bf16 = kernels::gemm_kernels_avx2(),
          .gemm_float = kernels::gemm_kernels_avx2(),
          .logprob = kernels::logprob_kernels_avx2(),
          .unpack_panel = kernels::unpack_panel_avx2,
          .fill_mask = fill_mask_avx2};
#else
  return {};
#endif
}

}  // namespace hone::ops
