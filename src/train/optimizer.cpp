#include "train/optimizer.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace hone::train {
namespace {

// Of "model.layers.12.mlp.up_proj.weight": 12.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kMark = ".layers.";
  std::int64_t layer = learn::kNoPart;
  if (const std::size_t at = name.find(kMark); at != std::string_view::npos)
    std::from_chars(name.data() + at + kMark.size(), name.data() + name.size(), layer);
  return layer;
}

}  // namespace

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
    for (learn::FlatTensor& tensor : layout) tensor.part = layer_of(tensor.name);
  }
  return {options, std::move(layout), adapter.flat().device()};
}

}  // namespace hone::train
