// Products of rows that are sorted by expert, each expert's with a matrix of its own.
//
// Shapes: S rows by expert (expert_rows.h), E experts, each with a matrix [out, in] (ops/weight.h).
//
// A backend that multiplies groups of rows does so in one call whatever E is, and the host never knows how many rows an
// expert has. Elsewhere each expert with rows has products of its own (ops/gemm.h); on a device the host waits for the numbers
// of rows then, once for all products of one ExpertRows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/experts/expert_rows.h"
#include "ops/gemm.h"
#include "ops/linear.h"

namespace hone::ops {

// ---- groups of rows, by definition

// [S, N] of a's dtype: the rows before ends[0] of a [S, K] times right[0], those before ends[1] times right[1], and so on.
// right [E, K, N], ends [E] int32, all on one device and of one dtype. Sums are fp32.
at::Tensor grouped_products(const at::Tensor& a, const at::Tensor& right, const at::Tensor& ends);
// [E, R, N] of left's dtype or fp32: left^T right of each group of rows; zeros of one without rows. left [S, R], right [S, N].
at::Tensor grouped_outers(const at::Tensor& left, const at::Tensor& right, const at::Tensor& ends);

// ---- experts

// The matrices of E experts, each of `parts` linears one below another. The weights outlive it.
struct ExpertMatrices {
  std::vector<const Weight*> weights;  // [E parts], expert by expert, all of one shape and dtype
  std::int64_t parts = 1;
  std::shared_ptr<const Quantized> codes = {};  // of lay_out_experts()

  std::int64_t out() const { return parts * weights.front()->out(); }
  std::int64_t in() const { return weights.front()->in(); }
};

// Moves the weights of these linears, in the order of ExpertMatrices, one behind another into memory of their own where their
// backend multiplies groups: plain ones, so that products read them without a copy, and quantized ones, which it returns as one
// matrix [E parts out, in], so that they are dequantized together. Else nothing happens, and the result is null.
std::shared_ptr<const Quantized> lay_out_experts(std::span<Linear* const> linears, std::int64_t parts);

struct ExpertTerm {
  at::Tensor a;  // [S, K]; K is `in` forward and `out` backward
  const ExpertMatrices* matrices = nullptr;
  GemmDirection side = GemmDirection::kForward;
};

// [S, N] in the matrices' dtype = scale * the sum over the terms of each row times its expert's matrix. The terms go one way,
// and their matrices have the same parts. Rounded once, but after each term where groups are multiplied.
at::Tensor expert_product(const std::vector<ExpertTerm>& terms, const ExpertRows& rows, double scale = 1);

// sums [E, R, N] fp32 += left^T right of each expert's rows: left [S, R], right [S, N], one dtype. Where groups are multiplied
// a product is rounded to that dtype before it is added.
struct ExpertOuter {
  at::Tensor sums, left, right;
};
void add_expert_outers(std::span<const ExpertOuter> products, const ExpertRows& rows);
// gradients [E]: each [out, in] fp32 += d^T x of its expert's rows, or undefined, which is left out. d [S, out], x [S, in].
void add_expert_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& d, const at::Tensor& x,
                          const ExpertRows& rows);

}  // namespace hone::ops
