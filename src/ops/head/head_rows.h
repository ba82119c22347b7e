// A head of which an adapter trains some rows, because the head is tied to the embedding (PEFT's
// trainable_token_indices). The frozen matrix is never written: its products are corrected for these rows.
// The result is that of the head with the rows replaced; in the bf16 form (ops/gemm.h) the logits are
// bit-equal to it.
//
// Shapes: n rows of hidden, H hidden, V vocabulary, k rows of an adapter, w the width of a tile of V.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/weight.h"

namespace hone::ops {

struct HeadRows {
  std::vector<std::int64_t> ids;  // [k] distinct, 0..V-1
  Weight rows;                    // [k, H] in the head's dtype
};

// A block of hidden rows and the head that reads it, tile by tile. The arguments must outlive it.
class HeadBlock {
 public:
  // hidden [n, H] with contiguous rows; `own` null: only the frozen matrix.
  HeadBlock(const at::Tensor& hidden, const Weight& head, const HeadRows* own, double soft_cap = 0);

  // out [n, w] fp32 becomes the logits of columns [column, column + w) of the vocabulary, capped.
  void logits(const at::Tensor& out, std::int64_t column) const;
  // gradient [n, H] fp32 += coefficients [n, w] times these rows of the head. Sets the coefficients of the
  // adapter's rows to 0.
  void add_product(const at::Tensor& gradient, const at::Tensor& coefficients, std::int64_t column) const;
  // [n, k] fp32: the logits of the adapter's rows, capped; undefined without any.
  const at::Tensor& own_logits() const { return own_logits_; }

 private:
  // The adapter's rows in a tile: their columns in it and their indices in HeadRows::ids, [m] int64;
  // undefined: none.
  struct Places {
    at::Tensor column, row;
  };
  Places places(std::int64_t column, std::int64_t width) const;

  const at::Tensor& hidden_;
  const Weight& head_;
  const HeadRows* own_;
  at::Tensor own_logits_;
  double soft_cap_;
};

// Rows `ids` [n] int64 of the head -> [n, H] fp32.
at::Tensor rows_of(const Weight& head, const HeadRows* own, const at::Tensor& ids);

// Any loss of n log-probabilities and entropies of a head, for the gradient of what is trained of the head.
struct HeadLoss {
  at::Tensor hidden;          // [n, H] in the head's dtype
  at::Tensor targets;         // [n] int64
  at::Tensor log_sum;         // [n] fp32, temperature applied
  at::Tensor d_logprob;       // [n] fp32
  at::Tensor entropy = {};    // [n] fp32; read only with d_entropy
  at::Tensor d_entropy = {};  // [n] fp32, or undefined: the loss has none
  double temperature = 1.0;
  double soft_cap = 0;
};
// gradient [k, H] fp32 += d loss / d rows, of the rows that the adapter trains. own_logits [n, k] fp32 are
// TokenLogprobs::own_logits, to which no temperature is applied. The derivatives by a row's logits are
//   d logprob / d logit_j = ([j = target] - p_j) / temperature
//   d entropy / d logit_j = -p_j (log p_j + entropy) / temperature
// The coefficients are rounded to the head's dtype, as those of linear_logprob are.
void add_head_rows_gradient(const at::Tensor& gradient, const HeadRows& own, const at::Tensor& own_logits,
                            const HeadLoss& loss);

}  // namespace hone::ops
