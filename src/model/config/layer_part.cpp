#include "model/config/layer_part.h"

#include <algorithm>

#include "base/error.h"
#include "model/config/families.h"
#include "model/layers/decoder_layer.h"
#include "model/parts/parts.h"

namespace hone::model {

bool LayerPart::has_linear(const ModelConfig& /*config*/, std::int64_t /*layer*/, ModuleKind /*kind*/) const {
  return false;
}

void LayerPart::shape(const ModelConfig& /*config*/, std::int64_t /*layer*/, LayerLinear& /*linear*/) const {}

void LayerPart::add_linears(const ModelConfig& /*config*/, std::vector<LayerLinear>& /*out*/) const {}

void LayerPart::add_parameters(const ModelConfig& /*config*/, const std::string& /*layer*/,
                               std::vector<ParameterSpec>& /*out*/) const {}

bool LayerPart::has_norm(const ModelConfig& /*config*/, std::int64_t /*layer*/, NormPlace place) const {
  return norms().before == place || norms().after == place;
}

void LayerPart::add_tensor(const ModelConfig& /*config*/, std::int64_t /*layer*/, const TensorRow& /*row*/,
                           std::vector<LayerTensor>& /*out*/) const {}

// A part that has a place moves the linear there.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void LayerPart::place(DecoderLayer& /*layer*/, const LayerLinear& what, ops::Linear /*linear*/) const {
  base::require(false, "model::LayerPart", "a place for " + what.hf + " in the part that has it");
}

void LayerPart::finish(DecoderLayer& /*layer*/, const std::vector<ParameterSpec>& /*parameters*/) const {}

std::vector<std::vector<ops::Linear*>> LayerPart::readers(DecoderLayer& /*layer*/) const {
  return {};
}

std::vector<ops::Linear*> LayerPart::linears(DecoderLayer& layer) const {
  std::vector<ops::Linear*> out;
  for (const std::vector<ops::Linear*>& group : readers(layer))
    out.insert(out.end(), group.begin(), group.end());
  return out;
}

std::vector<LinearStack> LayerPart::stacks(DecoderLayer& /*layer*/) const {
  return {};
}

const ops::Linear* LayerPart::last(const DecoderLayer& /*layer*/) const {
  return nullptr;
}

std::string LayerPart::no_input(const DecoderLayer& /*layer*/) const {
  return {};
}

std::vector<PartStop> LayerPart::stops(const DecoderLayer& /*layer*/) const {
  return {};
}

std::vector<const LayerPart*> parts_of(const ModelConfig& config, std::int64_t layer) {
  std::vector<const LayerPart*> out = {&mixing_part()};
  out.push_back(config.has_experts(layer) ? &experts_part() : &mlp_part());
  if (config.per_layer_width > 0) out.push_back(&own_input_part());
  const std::vector<TensorRow>& tensors = traits_of(config.family).tensors;
  if (std::any_of(tensors.begin(), tensors.end(),
                  [](const TensorRow& row) { return row.kind == TensorKind::kLayerScale; }))
    out.push_back(&scale_part());
  return out;
}

}  // namespace hone::model
