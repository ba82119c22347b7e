#include "serve/weights.h"

#include <algorithm>

#include "base/strings/suggest.h"

namespace hone::serve {

Weights::Weights(std::string base_name) : base_name_(std::move(base_name)) {
  all_.push_back({.name = base_name_, .version = nullptr, .parent = ""});
}

void Weights::set(NamedWeights weights) {
  const std::lock_guard lock(mutex_);
  const auto place = std::find_if(all_.begin(), all_.end(),
                                  [&](const NamedWeights& one) { return one.name == weights.name; });
  if (place == all_.end()) {
    all_.push_back(std::move(weights));
  } else {
    *place = std::move(weights);
  }
}

void Weights::remove(std::string_view name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [&](const NamedWeights& one) { return one.name == name && !one.parent.empty(); });
}

std::optional<NamedWeights> Weights::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto place =
      std::find_if(all_.begin(), all_.end(), [&](const NamedWeights& one) { return one.name == name; });
  if (place == all_.end()) return {};
  return *place;
}

std::vector<NamedWeights> Weights::all() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

std::string Weights::suggestion(std::string_view name) const {
  std::vector<std::string> known;
  for (const NamedWeights& one : all()) {
    if (one.listed) known.push_back(one.name);
  }
  return base::did_you_mean(std::string(name), known);
}

}  // namespace hone::serve
