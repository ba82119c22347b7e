#include "ops/adamw.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "ops/backend/reference/reference.h"
#include "ops/dynamic_codes.h"

namespace hone::ops::reference {

namespace {

constexpr std::int64_t kAtOnce = 1 << 24;  // elements: a temporary of 64 MB, and in fp64 one of twice that
static_assert(kAtOnce % kSumBlock == 0);

}  // namespace

void adamw(const AdamwStep& step) {
  const at::NoGradGuard no_grad;
  for (std::int64_t begin = 0; begin < step.p.numel(); begin += kAtOnce) {
    const auto part = [&](const Tensor& x) {
      return x.narrow(0, begin, std::min(kAtOnce, x.numel() - begin));
    };
    const Tensor p = part(step.p), g = part(step.g), m = part(step.m), v = part(step.v);
    p.mul_(step.decay);
    m.lerp_(g, step.lerp);
    v.mul_(step.beta2).addcmul_(g, g, step.one_minus_beta2);
    p.addcdiv_(m, v.sqrt().div_(step.root_correction2).add_(step.epsilon), step.minus_step_size);
  }
}

void adamw_codes(const AdamwCodesStep& step) {
  const at::NoGradGuard no_grad;
  const auto &with_sign = DynamicCodes::with_sign(), &without_sign = DynamicCodes::without_sign();
  const Tensor m = from_codes(with_sign, step.codes1, step.scales1, step.p);
  const Tensor v = from_codes(without_sign, step.codes2, step.scales2, step.p);
  m.mul_(step.beta1).add_(step.g, step.one_minus_beta1);
  v.mul_(step.beta2).addcmul_(step.g, step.g, step.one_minus_beta2);
  if (step.decay != 1) step.p.mul_(step.decay);
  step.p.addcdiv_(m, v.sqrt().div_(step.root_correction2).add_(step.epsilon), step.minus_step_size);
  to_codes(with_sign, m, step.codes1, step.scales1);
  to_codes(without_sign, v, step.codes2, step.scales2);
}

void block_sums_of_squares(const Tensor& sums, const Tensor& x) {
  constexpr std::int64_t kBlocks = kAtOnce / kSumBlock;
  const std::int64_t whole = x.numel() / kSumBlock;
  for (std::int64_t first = 0; first < whole; first += kBlocks) {
    const std::int64_t n = std::min(kBlocks, whole - first);
    const Tensor part = x.narrow(0, first * kSumBlock, n * kSumBlock).view({n, kSumBlock});
    Tensor out = sums.narrow(0, first, n);
    at::sum_out(out, part.to(at::kDouble).square_(), {1});
  }
  if (whole == sums.numel()) return;
  const Tensor rest = x.narrow(0, whole * kSumBlock, x.numel() - whole * kSumBlock);
  sums.narrow(0, whole, 1).copy_(rest.to(at::kDouble).square_().sum());
}

void scale(const Tensor& x, float factor) {
  x.mul_(factor);
}

}  // namespace hone::ops::reference
