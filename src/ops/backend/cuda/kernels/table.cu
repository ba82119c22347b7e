#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {

const Kernels& all_kernels() {
  static constexpr Kernels kTable = {.dropout = dropout,
                                     .rms_norm = rms_norm,
                                     .rms_norm_backward = rms_norm_backward,
                                     .norm_rope = norm_rope,
                                     .norm_rope_backward = norm_rope_backward,
                                     .swiglu = swiglu,
                                     .swiglu_backward = swiglu_backward,
                                     .softmax_tile = softmax_tile,
                                     .softmax_backward = softmax_backward,
                                     .adamw = adamw,
                                     .squares = squares,
                                     .scale = scale,
                                     .dequantize = dequantize,
                                     .add_rows = add_rows,
                                     .copy_blocks = copy_blocks,
                                     .join_attention = join_attention,
                                     .adamw_codes = adamw_codes,
                                     .lion = lion,
                                     .lion_codes = lion_codes,
                                     .gather_rows = gather_rows,
                                     .dequantize_panels = dequantize_panels,
                                     .sample_tokens = sample_tokens,
                                     .attend_pages = attend_pages,
                                     .step_heads = step_heads};
  return kTable;
}

}  // namespace hone::ops::cuda::kernels

extern "C" __attribute__((visibility("default"))) const hone::ops::cuda::kernels::Kernels*
hone_cuda_kernels() {
  return &hone::ops::cuda::kernels::all_kernels();
}
