#include "train/loop/optimizer.h"

#include <utility>

#include "model/config/layer_of.h"
#include "train/passes/flat_parts.h"

namespace hone::train {

namespace {

// With neither division nor a folder all of the state is in memory.
learn::StatePlace state_place(const DividedState& divided, const learn::FlatLayout& layout) {
  const bool divides = divided.divides();
  if (!divides && divided.offload.empty()) return {};
  const std::vector<FlatPart> parts = flat_parts(layout);
  return {.held = divides ? own_ranges(parts, divided.rank, divided.ranks) : own_ranges(parts, 0, 1),
          .offload = divided.offload};
}

}  // namespace

DividedState divided_state(const config::Plan& plan) {
  if (plan.use_peft) return {};
  return {.stage = static_cast<int>(plan.zero_stage),
          .rank = static_cast<int>(plan.rank),
          .ranks = static_cast<int>(plan.ranks),
          .offload = plan.offload_folder};
}

learn::Optimizer make_optimizer(const config::OptimizerPlan& plan, const adapters::Adapter& adapter,
                                const DividedState& divided) {
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
  return {options, layout, adapter.flat().device(), state_place(divided, layout)};
}

}  // namespace hone::train
