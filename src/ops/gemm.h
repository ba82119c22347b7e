// Matrix products of the fused layer: sums of products with frozen or small matrices, in one pass over the
// output.
//
// Contract of our kernels (cpu/gemm_kernels.h), which makes the sampler's log-probabilities those of the
// trainer: an element of the output is one chain of fp32 additions over the terms in order, and inside a term over k in
// order. It does not depend on M, on the other rows, on packing, on tiles or on threads, bit for bit. On avx2 and avx512
// a link of the chain is one product, added with one rounding (fma): both levels have the same bits, of bf16 and of
// float32. On avx512_bf16 it is a pair of neighboring k (vdpbf16ps) where the processor is faster with it
// (cpu/instructions.h). On amx it is a group of 32 k, counted from the start of the term (tdpbf16ps): a chain of fma over
// its even k, one over its odd k, and the sum of both; numbers below 2^-126 count as 0. float32 is the same on avx512,
// avx512_bf16 and amx. Elsewhere the products are libtorch's, which does not guarantee this.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "ops/weight.h"

namespace hone::ops {

// Which way a matrix [out, in] is read: kForward is a W^T (a [M, in], result [M, out]), kBackward a W (a [M,
// out], result [M, in]), the input gradient.
enum class GemmDirection { kForward, kBackward };

struct GemmTerm {
  at::Tensor a;  // [M, K], the matrix's dtype; rows may be strided
  const Weight* weight = nullptr;
  GemmDirection side = GemmDirection::kForward;

  at::Tensor right() const;  // [K, N], as libtorch's products read the matrix
};

struct Epilogue {
  double scale = 1;     // of the sum
  at::Tensor bias;      // [N], any float dtype, or undefined
  at::Tensor residual;  // [M, N], any float dtype, or undefined; may be `out` itself; rows may be strided
};

// out [M, N] = cast(scale * (sum of terms) + bias + residual), added in fp32 in this order and rounded once.
// out is bf16 or fp32; its rows may be strided (a slice of a concatenated buffer).
void gemm(at::Tensor out, std::span<const GemmTerm> terms, const Epilogue& epilogue = {});

// gemm() of one matrix, with a residual or without.
void multiply(const at::Tensor& out, const at::Tensor& a, const Weight& weight, GemmDirection side,
              const at::Tensor& residual = {});

struct Gemm {
  at::Tensor out;
  std::vector<GemmTerm> terms;
  Epilogue epilogue;
};
// gemm() of each; none may read another's output. Our kernels distribute all of them over the
// threads together.
void gemms(std::span<const Gemm> products);

// out += left^T right: the gradient of a small-rank factor. left [T, R] with small R, right [T, N], one
// dtype; rows may be strided. out is fp32, [R, N], or its transposed view of [N, R] (any strides). Sums run
// over t in order in fp32 (with vdpbf16ps in pairs, with tdpbf16ps in groups), then are added to out: independent of threads.
void add_outer(at::Tensor out, const at::Tensor& left, const at::Tensor& right);

struct Outer {
  at::Tensor out, left, right;
};
// add_outer() of each, into places that do not overlap. Our kernels distribute all of them over the threads together.
void add_outers(std::span<const Outer> products);

// gradient [out, in] fp32 += d_out^T x: of a weight that is trained in full. d_out [T, out], x [T, in], one dtype; rows
// may be strided. Sums run over t in order in fp32 and are added to the gradient; independent of threads.
void add_weight_gradient(at::Tensor gradient, const at::Tensor& d_out, const at::Tensor& x);

}  // namespace hone::ops
