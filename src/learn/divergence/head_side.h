// A model's rows and its head, tile by tile, for losses of whole distributions (learn/divergence/divergence.h, learn/divergence/top_k_divergence.h): the logits
// of a tile, and the way back from their gradients. Internal to learn.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "learn/divergence/divergence.h"
#include "ops/head/head_rows.h"
#include "ops/weight.h"

namespace hone::learn {

inline constexpr std::int64_t kTileRows = 256, kTileColumns = 1024;
static_assert(kTileColumns % ops::Weight::kSliceRows == 0);

// Rows [begin, begin + n) of one model. The head must outlive it.
class HeadSide {
 public:
  HeadSide(const DivergenceHead& head, std::int64_t begin, std::int64_t count, double temperature);
  HeadSide(const HeadSide&) = delete;
  HeadSide& operator=(const HeadSide&) = delete;

  // [n, width] fp32 of columns [column, column + width) of the vocabulary, capped and divided by the temperature.
  at::Tensor logits(std::int64_t column, std::int64_t width) const;
  // Turns the gradient d [n, w] of logits() into that of the head's products, in place.
  void uncap(at::Tensor d, const at::Tensor& logits) const;

  std::int64_t vocabulary() const { return head_.weight.out(); }
  const at::Tensor& hidden() const { return hidden_; }  // [n, H]
  const DivergenceHead& head() const { return head_; }
  const ops::HeadBlock& block() const { return block_; }

 private:
  const DivergenceHead& head_;
  double temperature_;
  at::Tensor hidden_;
  ops::HeadBlock block_;
};

// Sums of the gradients of a side's rows and head over the tiles. What it is given must outlive it.
class HeadGradient {
 public:
  // d_hidden [n, H] fp32 comes in as zeros.
  HeadGradient(const HeadSide& side, const DivergenceTrained& trained, const at::Tensor& d_hidden);

  // d [n, w] fp32, the gradient of these logits, is used up.
  void take(at::Tensor d, const at::Tensor& logits, std::int64_t column);
  // After the last tile: the gradient of the rows that an adapter trains.
  void finish() const;

 private:
  const HeadSide& side_;
  const DivergenceTrained& trained_;
  const at::Tensor& d_hidden_;
  at::Tensor of_own_;  // [n, k] coefficients of the adapter's rows; undefined: none
};

}  // namespace hone::learn
