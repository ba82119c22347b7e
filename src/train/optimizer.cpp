#include "train/optimizer.h"

#include <utility>

namespace hone::train {

learn::Optimizer make_optimizer(const config::OptimizerPlan& plan, const adapters::Adapter& adapter) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors;
  for (const auto& tensor : adapter.tensors()) tensors.emplace_back(tensor.name, tensor.value.sizes().vec());
  const learn::OptimizerOptions options = {.kind = plan.optim,
                                           .beta1 = plan.adam_beta1,
                                           .beta2 = plan.adam_beta2,
                                           .epsilon = plan.adam_epsilon,
                                           .weight_decay = plan.weight_decay,
                                           .arguments = plan.optim_args};
  return {options, learn::flat_layout(tensors), adapter.flat().device()};
}

}  // namespace hone::train
