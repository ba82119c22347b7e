// The emulator in the place of a card.
#pragma once

#include <ATen/Parallel.h>

#include "emulated/machine/guarded_kernels.h"
#include "ops/backend/cuda.h"
#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/own_kernels.h"

namespace hone::emulated {

// The CUDA backend's rows that have kernels of our own, for the CPU's tensors, with `kernels` between guards. Their bf16 is
// rounded as the definition's, so that its bounds are held without the room that libtorch's operators get.
class UseKernels {
 public:
  explicit UseKernels(const Kernels& kernels) : only_(rows()) {
    ops::cuda::set_own_kernels(&guarded(kernels));
    at::set_num_threads(1);  // others would wait in a loop while the emulator runs
  }
  ~UseKernels() { ops::cuda::set_own_kernels(nullptr); }
  UseKernels(const UseKernels&) = delete;
  UseKernels& operator=(const UseKernels&) = delete;

 private:
  static const ops::backend::Operators& rows() {
    static const ops::backend::Operators& cuda = ops::backend::cuda_operators();
    static const ops::backend::Operators table = {.name = "emulated",
                                                  .rms_norm = cuda.rms_norm,
                                                  .rms_norm_backward = cuda.rms_norm_backward,
                                                  .rms_norm_backward_cast = cuda.rms_norm_backward_cast,
                                                  .norm_rope = cuda.norm_rope,
                                                  .norm_rope_backward = cuda.norm_rope_backward,
                                                  .swiglu = cuda.swiglu,
                                                  .swiglu_backward = cuda.swiglu_backward,
                                                  .add_rows = cuda.add_rows,
                                                  .gather_rows = cuda.gather_rows,
                                                  .copy_blocks = ops::cuda::copy_blocks,
                                                  .dropout = cuda.dropout,
                                                  .dropout_backward_add = cuda.dropout_backward_add,
                                                  .join_attention = cuda.join_attention,
                                                  .dequantize = ops::cuda::dequantize,
                                                  .take_tile = ops::cuda::take_tile,
                                                  .take_row = ops::cuda::take_row,
                                                  .tile_backward = ops::cuda::tile_backward,
                                                  .adamw = cuda.adamw,
                                                  .adamw_codes = cuda.adamw_codes,
                                                  .lion = cuda.lion,
                                                  .lion_codes = cuda.lion_codes,
                                                  .block_sums_of_squares = cuda.block_sums_of_squares,
                                                  .scale = cuda.scale,
                                                  .roundings = 1,
                                                  .keeps_ggml = true};
    return table;
  }
  ops::backend::OnlyOperators only_;
};

}  // namespace hone::emulated
