// The functions of the table, each in the file of its kernel.
#pragma once

#include "ops/backend/cuda/kernels/kernels.h"

namespace hone::ops::cuda::kernels {

int dropout(const Dropout& x, void* stream);   // dropout.cu
int rms_norm(const RmsNorm& x, void* stream);  // rms_norm.cu
int rms_norm_backward(const RmsNormBackward& x, void* stream);
int norm_rope(const NormRope& x, void* stream);  // norm_rope.cu
int norm_rope_backward(const NormRope& x, void* stream);
int swiglu(const Swiglu& x, void* stream);  // swiglu.cu
int swiglu_backward(const SwigluBackward& x, void* stream);
int softmax_tile(const SoftmaxTile& x, void* stream);  // head.cu
int softmax_backward(const SoftmaxBackward& x, void* stream);
int adamw(const Adamw& x, void* stream);  // optimizer.cu
int squares(const SquareSums& x, void* stream);
int scale(const Scale& x, void* stream);
int dequantize(const Dequantize& x, void* stream);         // quantized.cu
int add_rows(const AddRows& x, void* stream);              // scattered_rows.cu
int copy_blocks(const CopyBlocks& x, void* stream);        // blocks.cu
int join_attention(const JoinAttention& x, void* stream);  // join.cu
int adamw_codes(const AdamwCodes& x, void* stream);        // codes.cu
int lion_codes(const LionCodes& x, void* stream);
int lion(const Lion& x, void* stream);                   // optimizer.cu
int gather_rows(const GatherRows& x, void* stream);      // scattered_rows.cu
int sample_tokens(const SampleTokens& x, void* stream);  // sampler.cu
int attend_pages(const AttendPages& x, void* stream);    // pages.cu
int step_heads(const StepHeads& x, void* stream);        // norm_rope.cu

int dequantize_panels(const DequantizePanels& x, void* stream);  // panels.cu

const Kernels& all_kernels();  // table.cu

}  // namespace hone::ops::cuda::kernels
