// The bf16 form of ops/gemm.h on avx512_bf16: cuts products into blocks for gemm_kernels.h and shares them
// among threads (ops/cpu/team.h). Arguments were checked by gemms() and add_outer().
//
// Scratch, per thread, kept for its next product: at most 0.6 MB of panels, 1 MB of sums,
// 64 KB of rows and as much of dequantised ones.
#pragma once

#include "ops/gemm.h"

namespace hone::ops {

void gemms_bf16(std::span<const Gemm* const> products);
void add_outer_bf16(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right);

}  // namespace hone::ops
