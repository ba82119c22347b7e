#include "train/passes/moving_reference.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

namespace hone::train {

namespace {

constexpr std::int64_t kNumbersAtOnce = std::int64_t{1}
                                        << 20;  // numbers at a time, so that no second copy is needed

template <typename Call>
void for_pieces(std::int64_t count, const Call& call) {
  for (std::int64_t begin = 0; begin < count; begin += kNumbersAtOnce)
    call(begin, std::min(kNumbersAtOnce, count - begin));
}

}  // namespace

MovingReference::MovingReference(at::Tensor parameters, at::Tensor values, at::ScalarType dtype,
                                 const config::ReferencePlan& plan)
    : parameters_(std::move(parameters)),
      values_(std::move(values)),
      dtype_(dtype),
      alpha_(plan.ref_model_mixup_alpha),
      steps_(plan.ref_model_sync_steps) {
  const at::NoGradGuard no_grad;
  if (dtype_ == at::kFloat) return;
  for_pieces(values_.numel(), [&](std::int64_t begin, std::int64_t count) {
    at::Tensor piece = values_.narrow(0, begin, count);
    piece.copy_(piece.to(dtype_));
  });
}

void MovingReference::after_step(std::int64_t done) {
  if (done % steps_ != 0) return;
  const at::NoGradGuard no_grad;
  for_pieces(values_.numel(), [&](std::int64_t begin, std::int64_t count) {
    at::Tensor piece = values_.narrow(0, begin, count);
    at::Tensor moved = piece.to(dtype_);
    moved.mul_(1.0 - alpha_).add_(parameters_.narrow(0, begin, count).to(dtype_), alpha_);
    if (!moved.is_same(piece)) piece.copy_(moved);
  });
}

void MovingReference::exchange() const {
  const at::NoGradGuard no_grad;
  for_pieces(values_.numel(), [&](std::int64_t begin, std::int64_t count) {
    at::Tensor policy = parameters_.narrow(0, begin, count), reference = values_.narrow(0, begin, count);
    const at::Tensor kept = policy.clone();
    policy.copy_(reference);
    reference.copy_(kept);
  });
}

}  // namespace hone::train
