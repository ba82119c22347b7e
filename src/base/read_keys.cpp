#include "base/read_keys.h"

#include <fmt/format.h>

#include "base/error.h"

namespace hone::base {

const ReadKey* ReadKeys::find(std::string_view name) const {
  for (const ReadKey& key : keys_) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

const Json& ReadKeys::at(const Json& object, std::string_view key) const {
  static const Json kNoValue = nullptr;
  const ReadKey* row = find(key);
  require(row != nullptr && row->use != KeyUse::kNeutral, kind_,
          fmt::format("{} is read, and its table does not say that it is applied or refused", key));
  const auto it = object.find(key);
  return it == object.end() ? kNoValue : *it;
}

std::vector<std::string> ReadKeys::unmarked(const Json& object) const {
  std::vector<std::string> names;
  if (!object.is_object()) return names;
  for (const auto& [name, value] : object.items()) {
    if (find(name) == nullptr) names.push_back(name);
  }
  return names;
}

}  // namespace hone::base
