// The loss of distillation from a teacher that says only its k most likely tokens: KL(teacher, student) over these k, and all the others
// together as one more. Computed between hidden rows and a head in tiles, as learn/divergence/divergence.h is.
//
// Shapes: n rows, H the width of the model, V its vocabulary. One row has log-probabilities r_i of the teacher at its k tokens, and the
// student's logits z, capped and divided by the temperature. With p = softmax(z), l = log p, t = 1 - sum_i exp(r_i) and s the sum of p
// over all tokens but the k:
//
//   D = sum_i exp(r_i) (r_i - l_i) + t (log t - log s)        d D / d z_i = p_i - exp(r_i)      of the k
//                                                             d D / d z_v = p_v - t p_v / s     of the others
//
// It is at most the KL of the whole distributions, and equal to it where the student spreads s as the teacher spreads t. s is summed from
// the other tokens' logits, because 1 minus the k would lose all digits where they are nearly certain.
// Cost per row and weight of the head: 2 FLOP for a value, 6 with its gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include "learn/divergence/divergence.h"

namespace hone::learn {

struct TopKTeacher {
  at::Tensor ids;       // [n, k] int64, on the device of the hidden rows; the ids of a row differ
  at::Tensor logprobs;  // [n, k] fp32, there too
};

// t is taken as at least 1e-8, since the teacher's numbers are fp32, and s as at least 1e-30. InternalError for shapes, dtypes
// or a temperature that do not fit.
DivergenceRows top_k_divergence(const DivergenceHead& student, const TopKTeacher& teacher,
                                double temperature);
// With d_hidden, the gradient of `factor` times the sum of D, as divergence_gradient().
DivergenceRows top_k_gradient(const DivergenceHead& student, const TopKTeacher& teacher, double temperature,
                              double factor, const DivergenceTrained& trained = {});

}  // namespace hone::learn
