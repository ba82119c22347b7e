// Distillation at the sampled tokens alone, as a policy gradient: a teacher gives one log-probability a token, and the
// advantage of a token is how much likelier it is to the teacher than to the sampler.
//
// Tokens t of one completion have l = log-probability of the student, o = of the sampler, r = of the teacher, c = coef,
// g = discount:
//
//   k_t = o_t - r_t                          its mean is an estimate of KL(student, teacher)
//   A_t = -c sum_{u >= t} g^(u - t) k_u      g = 0: of the token alone
//   loss = -sum_t exp(l_t - o_t) A_t         d loss / d l_t = -exp(l_t - o_t) A_t
//
// Over what the student samples at t, the mean gradient with g = 0 is that of c KL(student, teacher) at t.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hone::learn {

struct SampledDivergenceOptions {
  double coef = 1, discount = 0;
};

struct SampledDivergence {
  double loss = 0;        // summed
  double teacher_kl = 0;  // sum of k
  at::Tensor d_logprob;   // [n] fp32, times `factor`
};

// [n] fp32 on the CPU each. `sampler` undefined: the student itself, l without gradient. `sequence` [n]: the completion of each
// token, those of one next to each other and in order.
SampledDivergence sampled_divergence(const at::Tensor& student, const at::Tensor& sampler,
                                     const at::Tensor& teacher, const std::vector<std::int64_t>& sequence,
                                     const SampledDivergenceOptions& options, double factor);

}  // namespace hone::learn
