// The loss of on-policy distillation: how far the student's next-token distributions are from the teacher's, the
// generalized Jensen-Shannon divergence of TRL 1.16's DistillationTrainer (arXiv 2306.13649, Eq. 1), between the hidden
// rows of two models and through the heads of both. Blocks of rows over tiles of the vocabulary, in one fixed order:
// there is never a tensor of rows times vocabulary.
//
// Shapes: n rows, H the width of a model (the two may differ), V the vocabulary that they share. For one row let z be the
// logits of a model, capped and divided by the temperature T, p = softmax(z), s the student, t the teacher:
//
//   beta = 0   D = sum_v p_t (log p_t - log p_s)      d D / d z_s = p_s - p_t
//   beta = 1   D = sum_v p_s (log p_s - log p_t)      d D / d z_s = p_s (log p_s - log p_t - D)
//   between    D = beta KL(p_t || m) + (1 - beta) KL(p_s || m) with m = (1 - beta) p_s + beta p_t
//              d D / d z_s = (1 - beta) p_s (log p_s - log m - KL(p_s || m))
//
// The ends are cases of their own, since the form between tends to 0 there. Logits have to be finite. Two equal models
// have D = 0 exactly at the ends. Products are those of the head's dtype, all else is fp32, and sums over a row are fp64.
// Cost per row and weight of a head: 2 FLOP a sweep; a value takes one sweep of both heads, or two between the ends; a
// gradient takes another one, and 2 FLOP more for the student's head.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/head/head_rows.h"
#include "ops/weight.h"

namespace hone::learn {

// The last layer of a model. `own` must outlive the call.
struct DivergenceHead {
  at::Tensor hidden;  // [n, H] in the dtype of the weight
  ops::Weight weight;
  const ops::HeadRows* own = nullptr;  // rows that replace the weight's
  double soft_cap = 0;                 // of the logits; 0: none
};

struct DivergenceOptions {
  double beta = 1;         // 0..1
  double temperature = 1;  // above 0, of both models
};

struct DivergenceRows {
  at::Tensor divergence, entropy;  // [n] fp32: D, and the entropy of p_s in nats
  at::Tensor d_hidden = {};        // [n, H_s] fp32, of divergence_gradient()
};

// Holds the gradients of the student's head, fp32; what is undefined is not trained.
struct DivergenceTrained {
  at::Tensor weight = {};  // [V, H_s] += factor * sum of d D / d W
  at::Tensor own = {};     // [k, H_s] += the same of the rows `own`
};

// Without gradients. InternalError for shapes, dtypes or options that do not fit.
DivergenceRows divergence(const DivergenceHead& student, const DivergenceHead& teacher,
                          const DivergenceOptions& options);
// With d_hidden, the gradient of `factor` times the sum of D; nothing is differentiated by the teacher.
// Coefficients of the head's rows are rounded to its dtype, as in ops/head/linear_logprob.h.
DivergenceRows divergence_gradient(const DivergenceHead& student, const DivergenceHead& teacher,
                                   const DivergenceOptions& options, double factor,
                                   const DivergenceTrained& trained = {});

// Upper bound of the scratch of divergence_gradient().
std::int64_t divergence_bytes(std::int64_t n, std::int64_t vocabulary, at::ScalarType dtype);

}  // namespace hone::learn
