// lion_32bit, lion_8bit and the paged ones: Lion (Chen et al. 2023) in the order of bitsandbytes' CPU forms.
#include <ATen/ATen.h>

#include "learn/optimizers/blockwise.h"
#include "learn/optimizers/rows.h"

namespace hone::learn {
namespace {

void decay_lion(const StepNumbers& n, at::Tensor p) {
  if (n.weight_decay > 0) p.mul_(1.0 - n.learning_rate * n.weight_decay);
}

void lion_step(const StepNumbers& n, at::Tensor p, const at::Tensor& g, at::Tensor m) {
  decay_lion(n, p);
  p.add_(m.mul(n.options.beta1).add_(g, 1.0 - n.options.beta1).sign_(), -n.learning_rate);
  m.mul_(n.options.beta2).add_(g, 1.0 - n.options.beta2);
}

std::vector<StateSize> lion_state(const OptimizerOptions&, const FlatTensor& tensor) {
  return {{"exp_avg", tensor.size}};
}

void lion_apply(const StepNumbers& n, at::Tensor p, const at::Tensor& g, std::vector<at::Tensor>& state) {
  lion_step(n, p, g, state[0]);
}

std::vector<StateSize> lion8_state(const OptimizerOptions&, const FlatTensor& tensor) {
  const std::int64_t coded = is_8bit(tensor) ? tensor.size : 0;
  return {{"state1", coded, at::kByte}, {"absmax1", state_blocks(coded)}, {"exp_avg", tensor.size - coded}};
}

void lion8_apply(const StepNumbers& n, at::Tensor p, const at::Tensor& g, std::vector<at::Tensor>& state) {
  if (state[0].numel() == 0) {
    lion_step(n, p, g, state[2].view(p.sizes()));
    return;
  }
  at::Tensor m = from_codes(ops::DynamicCodes::with_sign(), state[0], state[1], p);
  decay_lion(n, p);
  // Other roundings than those of the 32-bit form.
  p.add_(m.mul(n.options.beta1).add_(g.mul(1.0 - n.options.beta1)).sign_(), -n.learning_rate);
  m.mul_(n.options.beta2).add_(g, 1.0 - n.options.beta2);
  to_codes(ops::DynamicCodes::with_sign(), m, state[0], state[1]);
}

}  // namespace

const OptimizerRow kLionRow = {OptimizerKind::kLion, "lion", Units::kBlocks, &lion_state, &lion_apply};
const OptimizerRow kLion8bitRow = {OptimizerKind::kLion8bit, "lion_8bit", Units::kCodes, &lion8_state,
                                   &lion8_apply};

}  // namespace hone::learn
