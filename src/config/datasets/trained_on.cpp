#include "config/datasets/trained_on.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/files/file.h"
#include "base/json.h"
#include "base/json_tools.h"
#include "config/reading/yaml_limits.h"

namespace hone::config {

namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 6> kBaseOptions = {"load_in_4bit",         "load_in_8bit",
                                                     "bnb_4bit_quant_type",  "use_bnb_nested_quant",
                                                     "quantize_moe_experts", "dtype"};

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

// The options of a base in 4 or 8 bits; empty: it was in none, or nobody says so.
struct FromPlan {
  std::string path;
  std::map<std::string, std::string, std::less<>> values;
};
std::optional<FromPlan> quantized_by_plan(const std::string& adapter, std::vector<std::string>& notes) {
  FromPlan out{.path = adapter.empty() ? "" : plan_of(adapter), .values = {}};
  if (out.path.empty()) return std::nullopt;
  YAML::Node plan;
  try {
    plan = YAML::Load(base::read_settings(out.path, kMaxYamlBytes));
  } catch (const std::exception&) {  // too large, unreadable, no YAML
    notes.push_back(out.path +
                    ": not read; if the adapter was trained with load_in_4bit or load_in_8bit, set the same "
                    "here");
    return std::nullopt;
  }
  for (const char* name : kBaseOptions) {
    const YAML::Node value = plan.IsMap() ? plan[name] : YAML::Node();
    out.values[name] = value.IsDefined() && value.IsScalar() ? value.Scalar() : std::string();
  }
  const bool four = out.values["load_in_4bit"] == "true", eight = out.values["load_in_8bit"] == "true";
  return four == eight ? std::nullopt : std::optional(out);
}

// What it was trained above; hone writes the file beside PEFT's two.
void inherit_base_adapters(Settings& settings, const std::string& adapter, std::vector<std::string>& notes) {
  const fs::path path = fs::path(adapter) / "base_adapters.json";
  std::error_code ignored;
  if (adapter.empty() || settings.is_set("base_adapters") || !fs::is_regular_file(path, ignored)) return;
  const base::Json json = base::parse_json(base::read_settings(path), path.string());
  const base::Json folders = json.is_object() ? json.value("base_adapters", base::Json()) : base::Json();
  if (!folders.is_array() || folders.empty()) return;
  for (const base::Json& folder : folders) {
    if (folder.is_string() && folder.get_ref<const std::string&>().find('\0') == std::string::npos) continue;
    throw base::UserError({.where = path.string() + ": base_adapters",
                           .expected = "a list of folders",
                           .found = base::short_json(folders),
                           .cause = "the file was edited, or is not hone's",
                           .fix = "set base_adapters, which replaces it"});
  }
  settings.replace("base_adapters", folders);
  notes.push_back(fmt::format("base_adapters: {}, from {}: what the adapter was trained above (null: none)",
                              base::short_json(folders), path.string()));
}

}  // namespace

void inherit_base_options(Settings& settings, const std::string& adapter, std::vector<std::string>& notes) {
  inherit_base_adapters(settings, adapter, notes);
  for (const char* name : kBaseOptions) {
    if (std::string_view(name) != "dtype" && settings.is_set(name)) return;
  }
  const auto plan = quantized_by_plan(adapter, notes);
  if (!plan) return;
  const std::vector<Option>& options = settings.schema().options;
  std::string taken;
  for (const char* name : kBaseOptions) {
    const std::string& value = plan->values.at(name);
    if (value.empty() || settings.is_set(name)) continue;
    for (const Option& option : options) {
      if (option.name != name) continue;
      const base::Json converted = convert_text(option, value, /*plain=*/true, plan->path);
      if (converted == settings.value(name)) continue;
      settings.replace(name, converted);
      taken += (taken.empty() ? "" : ", ") + std::string(name) + ": " + value;
    }
  }
  notes.push_back(taken + ", from " + plan->path + ": what the adapter was trained on");
}

TrainedOn trained_on(const std::string& adapter) {
  std::vector<std::string> unread;
  const auto plan = quantized_by_plan(adapter, unread);
  if (!plan) return {};
  const bool eight = plan->values.at("load_in_8bit") == "true";
  const bool fp4 = plan->values.at("bnb_4bit_quant_type") == "fp4";
  return {.base = eight ? QuantizedBase::kInt8
                  : fp4 ? QuantizedBase::kFp4
                        : QuantizedBase::kNf4,
          .nested = !eight && plan->values.at("use_bnb_nested_quant") == "true",
          .experts = plan->values.at("quantize_moe_experts") == "true"};
}

}  // namespace hone::config
