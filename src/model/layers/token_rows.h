// Rows of the embedding that an adapter trains instead of the base's: PEFT 0.21.2's trainable_token_indices
// (tuners/trainable_tokens/layer.py). If the head is tied they are also rows of the head. The base's matrices
// are unchanged: the rows are replaced after the lookup. The row of pad_token_id is trained like any other;
// in PEFT it silently gets no gradient from the lookup, since padding_idx is passed to F.embedding.
//
// Shapes: k rows, T tokens, H hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "ops/linear.h"

namespace hone::model {

class TokenRows {
 public:
  TokenRows() = default;  // none
  // ids [k], distinct; values [k, H] fp32, which the adapter owns and trains.
  TokenRows(std::vector<std::int64_t> ids, at::Tensor values);

  bool defined() const { return values_.defined(); }
  const std::vector<std::int64_t>& ids() const { return ids_; }
  const at::Tensor& values() const { return values_; }

  // Occurrences of the k rows in a batch, [m] int64 each: the token's place, and the index of the row.
  // Undefined: none, or the pass has adapters off.
  struct Places {
    at::Tensor token, row;
    std::vector<std::int64_t> tokens, rows;  // the same numbers on the host
    bool any() const { return token.defined(); }
  };
  Places places(const std::vector<std::int64_t>& ids, const ops::PassContext& pass) const;
  // x [T, H] with these rows replaced, in x's dtype (x itself if there are none); differentiable in values().
  at::Tensor put(const at::Tensor& x, const Places& places) const;
  // values().grad() += the rows of d [T, H], d loss / d put(), in the order of tokens, in fp32.
  void add_gradient(const at::Tensor& d, const Places& places) const;

 private:
  std::vector<std::int64_t> ids_;
  std::map<std::int64_t, std::int64_t> row_of_;
  at::Tensor values_;
};

}  // namespace hone::model
