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

std::int64_t LayerPart::tape_bytes(const ModelConfig& config, std::int64_t layer,
                                   const PassShape& pass) const {
  const PartColumns one = columns(config, layer);
  std::int64_t held = one.always, read = 0;
  if (pass.keeps_some) held += one.unless_layer;
  if (pass.keeps_all) {
    held += one.only_none;
    if (one.read > 0) read = read_bytes(config, pass);
  }
  return one.stream * pass.residual + read + held * pass.e + 4 * one.floats;
}

namespace {

bool has_place(const ModelConfig& config, const std::optional<NormPlace>& place) {
  const std::vector<NormRow>& norms = traits_of(config.family).norms;
  return place &&
         std::any_of(norms.begin(), norms.end(), [&](const NormRow& row) { return row.place == *place; });
}

}  // namespace

std::int64_t LayerPart::read_bytes(const ModelConfig& config, const PassShape& pass) const {
  const bool is_stream = pass.e == pass.residual && !has_place(config, norms().before);
  return is_stream ? 0 : config.hidden_size * pass.e;
}

std::int64_t LayerPart::added_bytes(const ModelConfig& config, const PassShape& pass) const {
  const bool is_apart = has_place(config, norms().after) || config.residual_scale != 1;
  return is_apart ? 2 * config.hidden_size * pass.e : 0;
}

std::int64_t LayerPart::output_gradient_bytes(const ModelConfig& config, const PassShape& pass) const {
  const bool is_stream = pass.e == pass.residual && added_bytes(config, pass) == 0;
  return is_stream ? 0 : config.hidden_size * pass.e;
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
