// The bf16 form of ops/gemm.h on avx512_bf16: splits products into blocks for gemm_kernels.h and distributes
// them over threads (ops/cpu/team.h). gemms() and add_outer() have checked the arguments.
//
// Scratch, per thread, kept for its next product: at most 0.6 MB of panels, 1 MB of sums,
// 64 KB of rows and 64 KB of dequantized rows.
#pragma once

#include "ops/gemm.h"

namespace hone::ops {

void gemms_bf16(std::span<const Gemm* const> products);
void add_outer_bf16(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right);

}  // namespace hone::ops
