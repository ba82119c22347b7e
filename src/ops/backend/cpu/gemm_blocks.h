// Our GEMM: ops/gemm.h's products split into blocks for gemm_kernels.h and distributed over threads
// (ops/machine/team.h). gemms() and add_outer() have checked the arguments.
//
// Scratch, per thread, kept for its next product: at most 0.7 MB of panels and 1.1 MB of sums (amx: 1.2 and 2.2), and of
// rows and dequantized rows 130 KB each (few rows of fma: 4 bytes a number).
#pragma once

#include "ops/backend/cpu/gemm_kernels.h"
#include "ops/gemm.h"

namespace hone::ops {

// Returns what runs products of `dtype` at the level in use; null: none of ours.
const kernels::GemmKernels* gemm_kernels(at::ScalarType dtype);

// All matrices of a product, and both of add_outer, are of one dtype that has kernels.
void gemms_in_blocks(std::span<const Gemm* const> products);
// x^T of x [rows, columns], contiguous.
at::Tensor transposed(const at::Tensor& x);
void add_outers_in_blocks(std::span<const Outer* const> products);

}  // namespace hone::ops
