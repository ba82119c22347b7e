#include "train/optimizer.h"

#include <utility>

#include "model/layer_of.h"

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
  learn::FlatLayout layout = learn::flat_layout(tensors);
  if (adapter.is_full()) {
    static_assert(learn::kNoPart == -1);  // as model::layer_of says it
    for (learn::FlatTensor& tensor : layout) tensor.part = model::layer_of(tensor.name);
  }
  return {options, std::move(layout), adapter.flat().device()};
}

}  // namespace hone::train
