#include "config/datasets/hub_configs.h"

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "config/reading/yaml_limits.h"

namespace hone::config {
namespace {

using base::Json;

constexpr std::size_t kMostConfigs = 10'000;
constexpr int kMostDepth = 8;

// The YAML between the first two lines "---".
std::string front_matter(const base::fs::path& readme) {
  std::ifstream file(readme, std::ios::binary);
  std::string line, out;
  if (!std::getline(file, line) || !std::string_view(line).starts_with("---")) return {};
  while (std::getline(file, line) && out.size() < kMaxYamlBytes) {
    if (std::string_view(line).starts_with("---")) return out;
    out += line + "\n";
  }
  return {};
}

Json json_of(const YAML::Node& node, int depth = 0) {
  if (depth > kMostDepth || !node.IsDefined() || node.IsNull()) return nullptr;
  if (node.IsScalar()) return node.Scalar();
  Json out = node.IsSequence() ? Json::array() : Json::object();
  std::size_t left = kMostConfigs;
  for (const auto& entry : node) {
    if (left-- == 0) break;
    if (node.IsSequence()) {
      out.push_back(json_of(entry, depth + 1));
    } else if (entry.first.IsScalar()) {
      out[entry.first.Scalar()] = json_of(entry.second, depth + 1);
    }
  }
  return out;
}

std::string text_of(const Json& value, const char* name) {
  const auto found = value.find(name);
  return found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

// [{split: train, path: a}, ...] becomes {train: a, ...} (sanitize_patterns).
Json by_split(const Json& data_files) {
  if (!data_files.is_array() || data_files.empty() || !data_files[0].is_object()) return data_files;
  Json out = Json::object();
  for (const Json& entry : data_files) {
    if (!entry.is_object() || !entry.contains("path")) continue;
    const std::string split = text_of(entry, "split");
    out[split.empty() ? "train" : split] = entry["path"];
  }
  return out;
}

std::vector<HubConfig> configs_of(const Json& yaml) {
  std::vector<HubConfig> out;
  if (!yaml.is_object() || !yaml.contains("configs") || !yaml["configs"].is_array()) return out;
  for (const Json& entry : yaml["configs"]) {
    if (!entry.is_object()) continue;
    HubConfig config{.name = text_of(entry, "config_name"), .data_dir = text_of(entry, "data_dir")};
    if (entry.contains("data_files")) config.data_files = by_split(entry["data_files"]);
    config.is_default = config.name == "default" || text_of(entry, "default") == "true";
    if (!config.name.empty()) out.push_back(std::move(config));
  }
  return out;
}

}  // namespace

std::vector<HubConfig> read_hub_configs(const base::fs::path& readme) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(readme, error)) return {};
  const std::string text = front_matter(readme);
  if (text.empty()) return {};
  try {
    return configs_of(json_of(YAML::Load(text)));
  } catch (const YAML::Exception&) {
    return {};
  }
}

}  // namespace hone::config
