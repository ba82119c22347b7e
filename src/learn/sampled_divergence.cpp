#include "learn/sampled_divergence.h"

#include <ATen/ATen.h>

#include <algorithm>
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

TopKDivergence top_k_divergence(const at::Tensor& student, const at::Tensor& teacher, std::int64_t k,
                                double factor) {
  constexpr double kLeast = 1e-8;
  const at::Tensor own = student.contiguous(), other = teacher.contiguous();
  const std::int64_t n = own.numel();
  base::require(k > 0 && n % k == 0 && other.numel() == n && own.scalar_type() == at::kFloat &&
                    other.scalar_type() == at::kFloat,
                "learn::top_k_divergence", "k fp32 numbers of each row");
  const float* const l = own.const_data_ptr<float>();
  const float* const r = other.const_data_ptr<float>();
  TopKDivergence out{.d_logprob = at::empty({n}, at::kFloat)};
  float* const d = out.d_logprob.mutable_data_ptr<float>();
  for (std::int64_t row = 0; row < n; row += k) {
    double left_teacher = 1, left_student = 1;
    for (std::int64_t i = row; i < row + k; ++i) {
      left_teacher -= std::exp(static_cast<double>(r[i]));
      left_student -= std::exp(static_cast<double>(l[i]));
    }
    const double t = std::max(left_teacher, kLeast), s = std::max(left_student, kLeast);
    out.divergence += t * (std::log(t) - std::log(s));
    for (std::int64_t i = row; i < row + k; ++i) {
      const double p = std::exp(static_cast<double>(r[i])), q = std::exp(static_cast<double>(l[i]));
      out.divergence += p * (static_cast<double>(r[i]) - l[i]);
      const double of_rest = left_student > kLeast ? t * q / s : 0;
      d[i] = static_cast<float>(factor * (of_rest - p));
    }
  }
  return out;
}

}  // namespace hone::learn
