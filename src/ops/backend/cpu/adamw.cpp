#include "ops/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/row_call.h"

namespace hone::ops::cpu {

bool adamw(const AdamwStep& step) {
  const AdamwArgs args = {.p = static_cast<float*>(step.p.data_ptr()),
                          .g = static_cast<const float*>(step.g.const_data_ptr()),
                          .m = static_cast<float*>(step.m.data_ptr()),
                          .v = static_cast<float*>(step.v.data_ptr()),
                          .decay = step.decay,
                          .lerp = step.lerp,
                          .beta2 = step.beta2,
                          .one_minus_beta2 = step.one_minus_beta2,
                          .root_correction2 = step.root_correction2,
                          .epsilon = step.epsilon,
                          .minus_step_size = step.minus_step_size};
  const RowKernels& kernels = row_kernels();
  at::parallel_for(0, step.p.numel(), kSumBlock,
                   [&](std::int64_t begin, std::int64_t end) { kernels.adamw(args, begin, end); });
  step.p.unsafeGetTensorImpl()->bump_version();  // shadows of the parameters are made again
  return true;
}

bool block_sums_of_squares(const Tensor& sums, const Tensor& x) {
  const auto* const values = x.const_data_ptr<float>();
  auto* const out = sums.mutable_data_ptr<double>();
  const std::int64_t size = x.numel();
  const RowKernels& kernels = row_kernels();
  at::parallel_for(0, sums.numel(), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t b = first; b < last; ++b)
      out[b] = kernels.sum_of_squares(values + b * kSumBlock, std::min(kSumBlock, size - b * kSumBlock));
  });
  return true;
}

bool scale(const Tensor& x, float factor) {
  auto* const values = x.mutable_data_ptr<float>();
  at::parallel_for(0, x.numel(), kSumBlock, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) values[i] *= factor;
  });
  return true;
}

}  // namespace hone::ops::cpu
