// The mixers that there are. This is the only file that names the kinds of layers.
#include "model/config/mixer.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "model/config/config_fields.h"
#include "model/layers/fused_layer.h"
#include "model/mixers/mixers.h"

namespace hone::model {
namespace {

struct MixerRow {
  LayerKind kind;
  const Mixer& (*mixer)();
};

constexpr std::array kMixers = {MixerRow{LayerKind::kAttention, attention_mixer},
                                MixerRow{LayerKind::kShortConv, short_conv_mixer},
                                MixerRow{LayerKind::kDeltaRule, delta_rule_mixer}};

const Mixer& mixer_of(LayerKind kind) {
  for (const MixerRow& row : kMixers)
    if (row.kind == kind) return row.mixer();
  throw base::InternalError({"mixer_of", "a row for every kind", "none", "", ""});
}

}  // namespace

bool Mixer::has_norm(const ModelConfig& /*config*/, std::int64_t /*layer*/, NormPlace /*place*/) const {
  return false;
}

void Mixer::add_tensor(const ModelConfig& /*config*/, const TensorRow& /*row*/,
                       std::vector<LayerTensor>& /*out*/) const {}

std::int64_t Mixer::backward_bytes(const ModelConfig& /*config*/, std::int64_t /*longest*/,
                                   std::int64_t /*threads*/) const {
  return 0;
}

std::int64_t Mixer::key_columns(const ModelConfig& /*config*/, std::int64_t /*layer*/) const {
  return 0;
}

std::int64_t Mixer::state_bytes(const ModelConfig& /*config*/, at::ScalarType /*dtype*/) const {
  return 0;
}

bool Mixer::has_gate(const ModelConfig& /*config*/) const {
  return false;
}

void Mixer::split(const MixerCall& /*call*/, MixerTape& /*tape*/) const {}

void Mixer::prepare(const MixerCall& /*call*/, MixerTape& /*tape*/, bool /*keeps*/) const {}

at::Tensor Mixer::seen(const MixerTape& tape) const {
  return tape.out;
}

const Mixer& ModelConfig::mixer(std::int64_t layer) const {
  return mixer_of(kinds.empty() ? LayerKind::kAttention : kinds.at(static_cast<std::size_t>(layer)));
}

std::vector<const Mixer*> mixers_of(const ModelConfig& config) {
  std::vector<const Mixer*> out;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const Mixer* const one = &config.mixer(i);
    if (std::find(out.begin(), out.end(), one) == out.end()) out.push_back(one);
  }
  return out;
}

LayerKind kind_of_type(std::string_view layer_type) {
  for (const MixerRow& row : kMixers)
    if (row.mixer().words().layer_type == layer_type) return row.kind;
  throw base::InternalError({"kind_of_type", "a word of layer_types", std::string(layer_type), "", ""});
}

std::optional<std::vector<LayerKind>> kinds_of_types(const base::Json& json, const std::string& where,
                                                     std::int64_t layers,
                                                     const std::vector<std::string_view>& words) {
  const base::Json* const types = lookup(json, "layer_types");
  if (types == nullptr) return std::nullopt;
  const auto known = [&](const base::Json& type) {
    return type.is_string() && std::find(words.begin(), words.end(), type.get<std::string>()) != words.end();
  };
  if (!types->is_array() || types->size() != static_cast<std::size_t>(layers) ||
      !std::all_of(types->begin(), types->end(), known)) {
    std::string list;
    for (const std::string_view word : words) list += (list.empty() ? "" : " and ") + std::string(word);
    wrong_type(where, "layer_types", ("a list of " + list + ", one a layer").c_str(), *types);
  }
  std::vector<LayerKind> kinds;
  for (const base::Json& type : *types) kinds.push_back(kind_of_type(type.get<std::string>()));
  return kinds;
}

}  // namespace hone::model
