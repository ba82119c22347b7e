// torch.optim.Adagrad (Duchi et al. 2011), in the order of its single-tensor form.
#include <ATen/ATen.h>

#include "learn/optimizers/rows.h"

namespace hone::learn {
namespace {

std::vector<StateSize> adagrad_state(const OptimizerOptions&, const FlatTensor& tensor) {
  return {{"sum", tensor.size}};
}

void adagrad_apply(const StepNumbers& n, at::Tensor p, const at::Tensor& gradient,
                   std::vector<at::Tensor>& state) {
  const at::Tensor g = n.weight_decay != 0 ? gradient.add(p, n.weight_decay) : gradient;
  const double rate = n.learning_rate / (1 + static_cast<double>(n.step - 1) * n.arguments.lr_decay);
  state[0].addcmul_(g, g, 1);
  p.addcdiv_(g, state[0].sqrt().add_(n.arguments.eps), -rate);
}

}  // namespace

const OptimizerRow kAdagradRow = {OptimizerKind::kAdagrad, "adagrad", Units::kBlocks, &adagrad_state,
                                  &adagrad_apply};

}  // namespace hone::learn
