#include "learn/divergence/sampled_divergence.h"

#include <ATen/ATen.h>

#include <cmath>

#include "base/error.h"

namespace hone::learn {

SampledDivergence sampled_divergence(const at::Tensor& student, const at::Tensor& sampler,
                                     const at::Tensor& teacher, const std::vector<std::int64_t>& sequence,
                                     const SampledDivergenceOptions& options, double factor) {
  const at::Tensor own = student.contiguous();
  const at::Tensor old = sampler.defined() ? sampler.contiguous() : own, other = teacher.contiguous();
  const std::int64_t n = own.numel();
  base::require(
      std::ssize(sequence) == n && old.numel() == n && other.numel() == n && own.scalar_type() == at::kFloat,
      "learn::sampled_divergence", "one fp32 number of each token");
  const float* const l = own.const_data_ptr<float>();
  const float* const o = old.const_data_ptr<float>();
  const float* const r = other.const_data_ptr<float>();
  SampledDivergence out{.d_logprob = at::empty({n}, at::kFloat)};
  float* const d = out.d_logprob.mutable_data_ptr<float>();
  double later = 0;  // what the tokens from the next one on sum to
  for (std::int64_t t = n; t-- > 0;) {
    const auto place = static_cast<std::size_t>(t);
    const bool last = t + 1 == n || sequence[place] != sequence[place + 1];
    const double k = static_cast<double>(o[t]) - r[t];
    later = k + (last ? 0 : options.discount * later);
    const double weighted = std::exp(static_cast<double>(l[t]) - o[t]) * options.coef * later;
    out.loss += weighted;
    out.teacher_kl += k;
    d[t] = static_cast<float>(factor * weighted);
  }
  return out;
}

}  // namespace hone::learn
