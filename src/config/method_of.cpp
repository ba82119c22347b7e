#include "config/method_of.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "config/write_plan.h"

namespace hone::config {

namespace {

// Top-level names, also those that merge keys bring in.
void add_keys(const YAML::Node& map, std::vector<std::string>& out) {
  if (!map.IsMap()) return;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) continue;
    if (entry.first.Scalar() != "<<") {
      out.push_back(entry.first.Scalar());
    } else if (entry.second.IsSequence()) {
      for (const YAML::Node& one : entry.second) add_keys(one, out);
    } else {
      add_keys(entry.second, out);
    }
  }
}

std::vector<std::string> keys_of(const std::string& yaml) {
  std::vector<std::string> out;
  try {
    add_keys(YAML::Load(yaml), out);
  } catch (const YAML::Exception&) {
    return {};
  }
  return out;
}

// "# hone grpo, resolved. ..." as write_plan begins.
std::optional<Method> named_method(const std::string& yaml) {
  constexpr std::string_view kBegin = "# hone ";
  if (!yaml.starts_with(kBegin)) return std::nullopt;
  const std::size_t end = yaml.find_first_of(", \n", kBegin.size());
  return find_method(std::string_view(yaml).substr(kBegin.size(), end - kBegin.size()));
}

}  // namespace

Method method_of(const std::string& yaml, const std::vector<std::string>& more) {
  if (const auto named = named_method(yaml)) return *named;
  std::vector<std::string> keys = keys_of(yaml);
  keys.insert(keys.end(), more.begin(), more.end());
  for (std::string& key : keys) std::replace(key.begin(), key.end(), '-', '_');
  Method best = Method::kSft;
  std::ptrdiff_t most = -1;
  for (const std::string& word : method_names()) {
    const Method method = *find_method(word);
    const Schema& schema = method_schema(method);
    const auto known = std::count_if(
        keys.begin(), keys.end(), [&schema](const std::string& key) { return schema.find(key) != nullptr; });
    if (known > most) {
      best = method;
      most = known;
    }
  }
  return best;
}

}  // namespace hone::config
