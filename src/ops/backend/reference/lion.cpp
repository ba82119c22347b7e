#include "ops/lion.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "ops/backend/reference/reference.h"
#include "ops/dynamic_codes.h"

namespace hone::ops::reference {

void lion(const LionStep& step) {
  const at::NoGradGuard no_grad;
  const LionRates& r = step.rates;
  if (r.decay != 1) step.p.mul_(r.decay);
  step.p.add_(step.m.mul(r.beta1).add_(step.g, r.one_minus_beta1).sign_(), r.minus_learning_rate);
  step.m.mul_(r.beta2).add_(step.g, r.one_minus_beta2);
}

void lion_codes(const LionCodesStep& step) {
  const at::NoGradGuard no_grad;
  const LionRates& r = step.rates;
  const DynamicCodes& map = DynamicCodes::with_sign();
  const Tensor m = from_codes(map, step.codes, step.scales, step.p);
  if (r.decay != 1) step.p.mul_(r.decay);
  // Other roundings than those of the 32-bit form.
  step.p.add_(m.mul(r.beta1).add_(step.g.mul(r.one_minus_beta1)).sign_(), r.minus_learning_rate);
  m.mul_(r.beta2).add_(step.g, r.one_minus_beta2);
  to_codes(map, m, step.codes, step.scales);
}

}  // namespace hone::ops::reference
