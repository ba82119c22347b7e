// AVX-512 f, bw, dq and vl. Products have the bits of avx2.
#include "ops/backend/cpu/level.h"

namespace hone::ops {

LevelKernels avx512_level() {
#if defined(__AVX512F__)
  return {.rows = row_kernels_avx512(),
          .delta = delta::kernels_avx512(),
          .attend = attention_kernels::forward_avx512,
          .attention_bf16 = attention_kernels::bf16_kernels_avx512(),
          .gemm_bf16 = kernels::gemm_kernels_avx512(),
          .gemm_float = kernels::gemm_kernels_avx512(),
          .logprob = kernels::logprob_kernels_avx512(),
          .unpack_panel = kernels::unpack_panel_avx512,
          .fill_mask = fill_mask_avx512};
#else
  return {};
#endif
}

}  // namespace hone::ops
