// From hidden states to log-probabilities without logits: the head in vocabulary tiles with an online softmax
// (Milakov and Gimelshein 2018; rescaled as flash attention does), only for the rows that are scored.
//
// Shapes: n scored rows, H hidden, V vocabulary. logits = hidden W^T / temperature; with a soft cap (Gemma 2) the
// product becomes cap tanh(product / cap) before the temperature (ops/soft_cap.h).
// Cost per head weight and row: 2 FLOP forward, 2 more with the gradient, and none in the backward: d log p /
// d h is one [H] vector per row for every loss, and the loss multiplies it by the row's scalar. Everything
// after the GEMM is fp32; including the sum of the gradient over tiles (TRL's chunked_logprob.py found that
// rounding each chunk to bf16 biases the entropy). With the bf16 GEMM (ops/gemm.h) a row's results do not
// depend on the other rows, and logprob_of(head_logits(...)) gives the bits of linear_logprob.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/head/head_rows.h"
#include "ops/weight.h"

namespace hone::ops {

// All [n] fp32.
struct TokenLogprobs {
  at::Tensor logprob;          // log p(target), temperature applied
  at::Tensor entropy;          // of the full softmax, temperature applied
  at::Tensor is_top1;          // 1 where the target is the first argmax
  at::Tensor log_sum;          // log sum exp of the row: needed by a trainable head's backward
  at::Tensor gradient;         // [n, H] fp32: d logprob / d hidden; undefined unless asked for
  at::Tensor log_sum_squares;  // log sum_v p_v^2, temperature applied; undefined unless asked for
  at::Tensor own_logits = {};  // [n, k] of options.own, capped, temperature not applied: for their gradient
  at::Tensor mean_logit = {};  // of the row, capped, temperature not applied; undefined unless asked for
};

struct LogprobOptions {
  bool gradient = false;
  double temperature = 1.0;
  bool squares = false;
  const HeadRows* own = nullptr;  // rows that replace the head's; must outlive the call
  double soft_cap = 0;            // of the logits; 0: none
  bool mean_logit = false;
};

// hidden [n, H] in the head's dtype and of any strides, targets [n] int64 in 0..V-1.
TokenLogprobs linear_logprob(const at::Tensor& hidden, const Weight& head, const at::Tensor& targets,
                             const LogprobOptions& options = {});

// The backward for a trainable head, which recomputes the tiles: from d loss / d logprob [n] fp32 to d loss /
// d hidden [n, H] fp32 and d loss / d W [V, H] fp32. The reference of add_head_gradient().
struct HeadGradients {
  at::Tensor hidden, weight;
};
HeadGradients linear_logprob_backward(const at::Tensor& hidden, const Weight& head, const at::Tensor& targets,
                                      const at::Tensor& log_sum, const at::Tensor& d_logprob,
                                      double temperature = 1.0);

// The gradient of a head that is trained in full, where the gradient of hidden is known (linear_logprob's,
// entropy_backward's).
// gradient [V, H] fp32 += d loss / d W, with d logprob / d logit_j = ([j = target] - p_j) / temperature and d entropy /
// d logit_j = -p_j (log p_j + entropy) / temperature. Recomputes the tiles: 4 FLOP per head weight and row, and no
// [n, V] tensor; coefficients are rounded to the head's dtype.
void add_head_gradient(const at::Tensor& gradient, const Weight& head, const HeadLoss& loss);

// The gradient of an entropy bonus: from linear_logprob's log_sum and entropy [n] fp32, at the same
// temperature, and d loss / d entropy [n] to d loss / d hidden [n, H] fp32. For one row,
// d entropy / d logit_j = -p_j (log p_j + entropy) / temperature. Recomputes the tiles: 4 FLOP per head
// weight and row, and no [n, V] tensor; coefficients are rounded to the head's dtype, as in linear_logprob.
at::Tensor entropy_backward(const at::Tensor& hidden, const Weight& head, const at::Tensor& log_sum,
                            const at::Tensor& entropy, const at::Tensor& d_entropy, double temperature = 1.0,
                            const HeadRows* own = nullptr, double soft_cap = 0);

// [H] fp32: the mean of the head's rows. Its product with hidden is the mean of a row's logits, temperature
// not applied.
at::Tensor mean_row(const Weight& head);
// [H] fp32: what replacing the head's rows by `own` adds to that mean.
at::Tensor mean_row_change(const Weight& head, const HeadRows& own);

// Upper bound of the scratch of linear_logprob with a gradient, of n rows over a vocabulary on `device`: the logits and
// probabilities of one block and tile, and where no kernel takes a tile what the reference makes of it.
std::int64_t linear_logprob_bytes(std::int64_t n, std::int64_t vocabulary, at::ScalarType dtype,
                                  at::Device device);

// Logits for a sampler: [n, V] fp32, temperature and soft cap not applied.
at::Tensor head_logits(const at::Tensor& hidden, const Weight& head, const HeadRows* own = nullptr);

// The results of linear_logprob for `targets` from logits [n, V] of head_logits (temperature not applied), in
// its order of additions. No gradient.
TokenLogprobs logprob_of(const at::Tensor& logits, const at::Tensor& targets, double temperature = 1.0);

}  // namespace hone::ops
