// torch.optim.RMSprop (Hinton 2012; centered: Graves 2013), in the order of its single-tensor form.
#include <ATen/ATen.h>

#include "learn/optimizers/rows.h"

namespace hone::learn {
namespace {

std::vector<StateSize> rmsprop_state(const OptimizerOptions& options, const FlatTensor& tensor) {
  return {{"square_avg", tensor.size},
          {"momentum_buffer", options.arguments.momentum > 0 ? tensor.size : 0},
          {"grad_avg", options.arguments.centered ? tensor.size : 0}};
}

void rmsprop_apply(const StepNumbers& n, at::Tensor p, const at::Tensor& gradient,
                   std::vector<at::Tensor>& state) {
  const double alpha = n.arguments.alpha;
  const at::Tensor g = n.weight_decay != 0 ? gradient.add(p, n.weight_decay) : gradient;
  state[0].mul_(alpha).addcmul_(g, g, 1 - alpha);
  at::Tensor root;
  if (n.arguments.centered) {
    state[2].lerp_(g, 1 - alpha);
    root = state[0].addcmul(state[2], state[2], -1).sqrt_();
  } else {
    root = state[0].sqrt();
  }
  root.add_(n.arguments.eps);
  if (n.arguments.momentum > 0) {
    state[1].mul_(n.arguments.momentum).addcdiv_(g, root);
    p.add_(state[1], -n.learning_rate);
  } else {
    p.addcdiv_(g, root, -n.learning_rate);
  }
}

}  // namespace

const OptimizerRow kRmspropRow = {OptimizerKind::kRmsprop, "rmsprop", Units::kBlocks, &rmsprop_state,
                                  &rmsprop_apply};

}  // namespace hone::learn
