// Attention over two parts of a row's keys, which becomes that over all of them (Dao 2022): each part weighs as much as its sum of
// exp(score) is of both.
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops::backend {

// T rows attended to their own keys, n of them to a prefix too. N heads, D numbers each.
struct AttentionParts {
  at::Tensor out,
      lse;  // [T, N, D] and [T, N] fp32 (undefined: not wanted): what is written, of the n rows only
  at::Tensor own, own_lse;    // [T, N, D] and [N, T] fp32
  at::Tensor part, part_lse;  // [n, N, D] and [N, n] fp32
  at::Tensor rows;            // [n] int32: which rows; undefined: n is T, in order
  bool may_be_empty = false;  // a part of no keys is zeros, and its log-sum-exp infinity
};

// In fp32, rounded once to out's dtype. lse must not be own_lse.
void join_attention(const AttentionParts& x);

}  // namespace hone::ops::backend
