// Dropout on an adapter's input whose mask is a pure function of the token's row and position in the data,
// not of its place in a batch. dropout_mask, the definition, is declared in ops/linear.h beside PassContext.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>

#include "ops/linear.h"

namespace hone::ops {

// One module's mask in one pass. Philox's key carries (seed, purpose, module, step), its counter (feature / 4,
// position, row): every element has numbers of its own, whatever the batch looks like.
struct DropoutMask {
  std::array<std::uint32_t, 2> key{};
  double p = 0;                             // of dropping a feature
  std::span<const std::int64_t> rows = {};  // of each token: the row of the data, and its place in it
  std::span<const std::int64_t> positions = {};

  float kept() const { return static_cast<float>(1.0 / (1.0 - p)); }
  std::uint32_t dropped_below() const { return static_cast<std::uint32_t>(p * 4294967296.0); }  // of 2^32
};
// [T, features] fp32 on the CPU, of 0 and kept().
at::Tensor drawn(const DropoutMask& mask, std::int64_t features);

// cast(fp32(x) * dropout_mask, dtype) for x [T, features]. Differentiable in x; the mask is generated again
// in the backward and never stored. Needs pass.token_row and pass.token_position, which are copied.
at::Tensor apply_dropout(const at::Tensor& x, const PassContext& pass, std::uint64_t key, double p,
                         at::ScalarType dtype);

// ---- the fused forms: the mask is generated row by row, never stored as a whole

// out [T, features] = cast(fp32(x) * dropout_mask); x and out fp32 or bf16, rows may be strided.
void dropout_into(at::Tensor out, const at::Tensor& x, const PassContext& pass, std::uint64_t key, double p);

// dx += dropout_mask * d, both [T, features]; dx fp32 or bf16, rounded once.
void dropout_backward_add(at::Tensor dx, const at::Tensor& d, const PassContext& pass, std::uint64_t key,
                          double p);

}  // namespace hone::ops
