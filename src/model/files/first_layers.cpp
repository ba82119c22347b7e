#include "model/files/first_layers.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "model/config/families.h"

namespace hone::model {

FirstLayersSource::FirstLayersSource(const WeightSource& whole, std::int64_t layers)
    : whole_(whole), config_(whole.config()) {
  base::require(layers >= 1 && layers <= config_.num_hidden_layers, "model::FirstLayersSource",
                "one of the model's layers at least");
  config_.num_hidden_layers = layers;
}

bool FirstLayersSource::is_kept(const std::string& name) const {
  const std::string_view prefix = names_of(config_).layers.hf;
  if (!name.starts_with(prefix)) return true;
  std::int64_t number = 0;
  const char* const begin = name.data() + prefix.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), number);
  return error != std::errc() || number < config_.num_hidden_layers;
}

std::vector<std::string> FirstLayersSource::names() const {
  std::vector<std::string> out = whole_.names();
  std::erase_if(out, [this](const std::string& name) { return !is_kept(name); });
  return out;
}

}  // namespace hone::model
