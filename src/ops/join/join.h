// Linears that read one tensor, as one matrix of a device that pays for each product:
//
//   M = [ W B ]   [out + R, in + R]   W the weights one below another, B [out, R] block by block, A [R, in] the sides
//       [ A 0 ]                       one below another; R the sum of the ranks, made up to a multiple of 8
//
// With xa = s x A^T in the last R columns of x's buffer the outputs are [x | xa] [W B]^T: one product, one sum in fp32.
// With d_xa = s dY B in the last R columns of dY's buffer dX is [dY | d_xa] [W; A]: one product again. The sampler reads
// the same memory. A and B are copied into M when their fp32 masters have changed.
//
// A form of ops/fused_linear.h, which asks for it; nobody else does but whoever allocates what those read and write.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/linear.h"
#include "ops/routed_rows.h"

namespace hone::ops {

class Join {
 public:
  // Moves the weights of these linears into a matrix and leaves views in their place; each then knows its join. Nothing
  // happens where their backend does not join, or where one is quantized, trained in full or DoRA's, or has no numbers.
  static void make(std::span<Linear* const> linears);
  // The one of these linears, all of it and in order, with A and B as they are now; null: they are multiplied apart.
  // `sides`: the adapters are on.
  static const Join* of(std::span<const Linear* const> linears, bool sides);

  std::int64_t in() const { return in_; }
  std::int64_t out() const { return out_; }
  std::int64_t rank() const { return rank_; }  // R
  double scale() const { return scale_; }      // s

  const Weight& forward(bool sides) const { return sides && rank_ > 0 ? wide_ : weights_; }
  const Weight& backward() const { return tall_; }  // [out + R, in]
  const Weight& weights() const { return weights_; }
  const Weight& a() const { return a_; }            // [R, in]
  const Weight& b() const { return b_; }            // [out, R]
  const at::Tensor& bias() const { return bias_; }  // [out] or undefined
  // Where the side of linear `place` begins among the R, and its rank; 0: it has none.
  std::int64_t first(std::size_t place) const { return parts_[place].first; }
  std::int64_t rank(std::size_t place) const { return parts_[place].rank; }

  // [T, width], uninitialized, with R columns behind each row for the sides.
  at::Tensor roomy(std::int64_t tokens, std::int64_t width, const at::TensorOptions& options) const;
  // The R columns behind x, or undefined: x did not come from roomy(). And x with them, [T, width + R].
  at::Tensor behind(const at::Tensor& x) const;
  at::Tensor with_behind(const at::Tensor& x) const;

 private:
  struct Part {
    std::int64_t out = 0, first = 0, rank = 0, row = 0;
    mutable at::Tensor a, b;  // the masters that the matrix has
    mutable std::int64_t a_version = 0, b_version = 0;
  };
  bool holds(std::span<const Linear* const> linears, bool sides) const;
  void refresh(std::span<const Linear* const> linears) const;
  // What of A and B has changed since it was copied, and is from now on taken as copied.
  void take_changed(std::vector<BlockCopy>& copies) const;

  at::Tensor matrix_, bias_;
  Weight wide_, tall_, weights_, a_, b_;
  std::vector<Part> parts_;
  std::int64_t in_ = 0, out_ = 0, rank_ = 0;
  double scale_ = 1;
};

// Return what linears that read one tensor read and write, [T, in] and [T, sum of out]: uninitialized, with
// the room that their join wants.
at::Tensor input_rows(std::span<const Linear> linears, std::int64_t tokens, const at::TensorOptions& options);
at::Tensor output_rows(std::span<const Linear> linears, std::int64_t tokens,
                       const at::TensorOptions& options);

}  // namespace hone::ops
