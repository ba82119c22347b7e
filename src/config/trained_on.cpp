#include "config/trained_on.h"

#include <yaml-cpp/yaml.h>

#include <array>
#include <filesystem>

namespace hone::config {

namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 5> kBaseOptions = {"load_in_4bit", "load_in_8bit", "bnb_4bit_quant_type",
                                                     "use_bnb_nested_quant", "dtype"};

std::string plan_of(const std::string& adapter) {
  fs::path folder = fs::path(adapter).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "runs/first/"
  std::error_code ignored;
  for (const fs::path& path : {folder / "plan.yaml", folder.parent_path() / "plan.yaml"}) {
    const bool checkpoint = folder.filename().string().starts_with("checkpoint-");
    if (path.parent_path() != folder && !checkpoint) continue;
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return "";
}

}  // namespace

void take_base_options(Settings& settings, const std::string& adapter, std::vector<std::string>& notes) {
  for (const char* name : kBaseOptions) {
    if (std::string_view(name) != "dtype" && settings.is_set(name)) return;
  }
  const std::string path = adapter.empty() ? "" : plan_of(adapter);
  if (path.empty()) return;
  YAML::Node plan;
  try {
    plan = YAML::LoadFile(path);
  } catch (const YAML::Exception&) {
    notes.push_back(path +
                    ": not read; if the adapter was trained with load_in_4bit or load_in_8bit, say so here");
    return;
  }
  const auto text = [&plan](const char* name) {
    const YAML::Node value = plan.IsMap() ? plan[name] : YAML::Node();
    return value.IsDefined() && value.IsScalar() ? value.Scalar() : std::string();
  };
  const bool four = text("load_in_4bit") == "true", eight = text("load_in_8bit") == "true";
  if (four == eight) return;
  const std::vector<Option>& options = settings.schema().options;
  std::string taken;
  for (const char* name : kBaseOptions) {
    const std::string value = text(name);
    if (value.empty() || settings.is_set(name)) continue;
    for (const Option& option : options) {
      if (option.name != name) continue;
      const base::Json converted = convert_text(option, value, /*plain=*/true, path);
      if (converted == settings.value(name)) continue;
      settings.replace(name, converted);
      taken += (taken.empty() ? "" : ", ") + std::string(name) + ": " + value;
    }
  }
  notes.push_back(taken + ", from " + path + ": what the adapter was trained on");
}

}  // namespace hone::config
