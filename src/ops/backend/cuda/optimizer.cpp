// The optimizer by kernels of our own: one pass over memory, with the CPU's bits.
#include <ATen/ATen.h>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/own_kernels.h"
#include "ops/dynamic_codes.h"

namespace hone::ops::cuda {
namespace {

kernels::CodedMoment moment(KernelViews& of, const DynamicCodes& map, const Tensor& codes,
                            const Tensor& scales) {
  static_assert(kernels::kCodeBlock == kCodeBlock && kernels::kLeastCodeScale == DynamicCodes::kLeastScale);
  const CodeTables& tables = tables_on(map, codes.device());
  return {.codes = of.numbers<std::uint8_t>(codes),
          .scales = of.numbers<float>(scales),
          .values = of.numbers<const float>(tables.values),
          .places = of.numbers<const std::uint8_t>(tables.places)};
}

// As libtorch rounds the factors of an fp32 tensor.
kernels::LionRates rounded(const LionRates& r) {
  return {.decay = static_cast<float>(r.decay),
          .beta1 = static_cast<float>(r.beta1),
          .one_minus_beta1 = static_cast<float>(r.one_minus_beta1),
          .beta2 = static_cast<float>(r.beta2),
          .one_minus_beta2 = static_cast<float>(r.one_minus_beta2),
          .minus_learning_rate = static_cast<float>(r.minus_learning_rate)};
}

// The version of parameters that a kernel wrote goes up: shadows of them are made again.
bool written(const Tensor& p, bool own) {
  if (own) p.unsafeGetTensorImpl()->bump_version();
  return own;
}

}  // namespace

bool adamw(const AdamwStep& step) {
  const auto call = [&](KernelViews& of) -> kernels::Adamw {
    return {.p = of.numbers<float>(step.p),
            .g = of.numbers<const float>(step.g),
            .m = of.numbers<float>(step.m),
            .v = of.numbers<float>(step.v),
            .size = step.p.numel(),
            .decay = step.decay,
            .lerp = step.lerp,
            .beta2 = step.beta2,
            .one_minus_beta2 = step.one_minus_beta2,
            .root_correction2 = step.root_correction2,
            .epsilon = step.epsilon,
            .minus_step_size = step.minus_step_size};
  };
  return written(step.p, run_own(step.p.device(), &kernels::Kernels::adamw, "adamw", call));
}

bool adamw_codes(const AdamwCodesStep& step) {
  if (step.p.scalar_type() != at::kFloat) return false;
  const auto call = [&](KernelViews& of) -> kernels::AdamwCodes {
    return {.p = of.numbers<float>(step.p),
            .g = of.numbers<const float>(step.g),
            .first = moment(of, DynamicCodes::with_sign(), step.codes1, step.scales1),
            .second = moment(of, DynamicCodes::without_sign(), step.codes2, step.scales2),
            .size = step.p.numel(),
            .decay = static_cast<float>(step.decay),
            .beta1 = static_cast<float>(step.beta1),
            .one_minus_beta1 = static_cast<float>(step.one_minus_beta1),
            .beta2 = static_cast<float>(step.beta2),
            .one_minus_beta2 = static_cast<float>(step.one_minus_beta2),
            .root_correction2 = static_cast<float>(step.root_correction2),
            .epsilon = static_cast<float>(step.epsilon),
            .minus_step_size = static_cast<float>(step.minus_step_size)};
  };
  return written(step.p, run_own(step.p.device(), &kernels::Kernels::adamw_codes, "adamw_codes", call));
}

bool lion(const LionStep& step) {
  if (step.p.scalar_type() != at::kFloat) return false;
  const auto call = [&](KernelViews& of) -> kernels::Lion {
    return {.p = of.numbers<float>(step.p),
            .g = of.numbers<const float>(step.g),
            .m = of.numbers<float>(step.m),
            .size = step.p.numel(),
            .rates = rounded(step.rates)};
  };
  return written(step.p, run_own(step.p.device(), &kernels::Kernels::lion, "lion", call));
}

bool lion_codes(const LionCodesStep& step) {
  if (step.p.scalar_type() != at::kFloat) return false;
  const auto call = [&](KernelViews& of) -> kernels::LionCodes {
    return {.p = of.numbers<float>(step.p),
            .g = of.numbers<const float>(step.g),
            .moment = moment(of, DynamicCodes::with_sign(), step.codes, step.scales),
            .size = step.p.numel(),
            .rates = rounded(step.rates)};
  };
  return written(step.p, run_own(step.p.device(), &kernels::Kernels::lion_codes, "lion_codes", call));
}

bool block_sums_of_squares(const Tensor& sums, const Tensor& x) {
  static_assert(kernels::kSquaresBlock == kSumBlock);
  return run_own(x.device(), &kernels::Kernels::squares, "block_sums_of_squares",
                 [&](KernelViews& of) -> kernels::SquareSums {
                   return {
                       .sums = of.numbers<double>(sums), .x = of.numbers<const float>(x), .size = x.numel()};
                 });
}

bool scale(const Tensor& x, float factor) {
  return run_own(x.device(), &kernels::Kernels::scale, "scale", [&](KernelViews& of) -> kernels::Scale {
    return {.x = of.numbers<float>(x), .size = x.numel(), .factor = factor};
  });
}

}  // namespace hone::ops::cuda
