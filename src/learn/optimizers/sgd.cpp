// torch.optim.SGD, with momentum and Nesterov's form of it (Sutskever et al. 2013), in the order of its
// single-tensor form.
#include <ATen/ATen.h>

#include "learn/optimizers/rows.h"

namespace hone::learn {
namespace {

std::vector<StateSize> sgd_state(const OptimizerOptions& options, const FlatTensor& tensor) {
  return {{"momentum_buffer", options.arguments.momentum != 0 ? tensor.size : 0}};
}

void sgd_apply(const StepNumbers& n, at::Tensor p, const at::Tensor& gradient,
               std::vector<at::Tensor>& state) {
  at::Tensor g = n.weight_decay != 0 ? gradient.add(p, n.weight_decay) : gradient;
  const double momentum = n.arguments.momentum;
  if (momentum != 0) {
    if (n.step == 1) {
      state[0].copy_(g);  // without dampening
    } else {
      state[0].mul_(momentum).add_(g, 1 - n.arguments.dampening);
    }
    g = n.arguments.nesterov ? g.add(state[0], momentum) : state[0];
  }
  p.add_(g, -n.learning_rate);
}

}  // namespace

const OptimizerRow kSgdRow = {OptimizerKind::kSgd, "sgd", Units::kBlocks, &sgd_state, &sgd_apply};

}  // namespace hone::learn
