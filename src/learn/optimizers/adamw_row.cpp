// adamw_torch, adamw_torch_fused, and the paged 32-bit one: learn/adamw.h. The reference is the same formula
// (torch.optim.AdamW) in libtorch's operators.
#include <ATen/ATen.h>

#include <cmath>

#include "learn/adamw.h"
#include "learn/optimizers/rows.h"

namespace hone::learn {
namespace {

std::vector<StateSize> adamw_state(const OptimizerOptions&, const FlatTensor& tensor) {
  return {{"exp_avg", tensor.size}, {"exp_avg_sq", tensor.size}};
}

void adamw_reference(const StepNumbers& n, at::Tensor p, const at::Tensor& g, at::Tensor m, at::Tensor v) {
  const double beta1 = n.options.beta1, beta2 = n.options.beta2, step = static_cast<double>(n.step);
  p.mul_(1.0 - n.learning_rate * n.weight_decay);
  m.mul_(beta1).add_(g, 1.0 - beta1);
  v.mul_(beta2).addcmul_(g, g, 1.0 - beta2);
  const at::Tensor root = v.div(1.0 - std::pow(beta2, step)).sqrt_().add_(n.options.epsilon);
  p.addcdiv_(m, root, -n.learning_rate / (1.0 - std::pow(beta1, step)));
}

void adamw_apply(const StepNumbers& n, at::Tensor p, const at::Tensor& g, std::vector<at::Tensor>& state) {
  if (p.scalar_type() == at::kDouble) {
    adamw_reference(n, p, g, state[0], state[1]);
    return;
  }
  AdamWState moments = {.m = state[0], .v = state[1], .step = n.step - 1};
  adamw_step(p, g, moments,
             {.beta1 = n.options.beta1,
              .beta2 = n.options.beta2,
              .epsilon = n.options.epsilon,
              .weight_decay = n.weight_decay},
             n.learning_rate);
}

}  // namespace

const OptimizerRow kAdamWRow = {OptimizerKind::kAdamW, "adamw", Units::kRanges, &adamw_state, &adamw_apply};

}  // namespace hone::learn
