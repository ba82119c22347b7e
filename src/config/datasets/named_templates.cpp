#include "config/datasets/named_templates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"

namespace hone::config {

using base::Json;
namespace fs = base::fs;

bool is_template_text(const std::string& value) {
  return value.find("{{") != std::string::npos || value.find("{%") != std::string::npos;
}

std::vector<NamedTemplate> named_templates(const fs::path& folder) {
  std::map<std::string, std::string> found;
  std::error_code none;
  const fs::path config = folder / "tokenizer_config.json";
  if (fs::is_regular_file(config, none)) {
    const Json json = base::parse_json(base::read_text(config), config.string());
    const Json list = json.is_object() ? json.value("chat_template", Json()) : Json();
    for (const Json& each : list.is_array() ? list : Json::array()) {
      const bool whole = each.is_object() && each.contains("name") && each.contains("template");
      if (!whole || !each["name"].is_string() || !each["template"].is_string()) continue;
      found[each["name"].get<std::string>()] = each["template"].get<std::string>();
    }
  }
  const fs::path more = folder / "additional_chat_templates";
  if (fs::is_directory(more, none)) {
    for (const auto& entry : fs::directory_iterator(more)) {
      if (entry.path().extension() != ".jinja") continue;
      found[entry.path().stem().string()] = base::read_text(entry.path());
    }
  }
  std::vector<NamedTemplate> out;
  for (auto& [name, source] : found) out.push_back({.name = name, .source = std::move(source)});
  return out;
}

void find_named_template(Plan& plan, const Settings& settings) {
  if (plan.chat_template.empty() || is_template_text(plan.chat_template)) return;
  const std::string& place =
      plan.tokenizer_name_or_path.empty() ? plan.model_name_or_path : plan.tokenizer_name_or_path;
  std::vector<NamedTemplate> there = named_templates(place);
  const auto at = std::find_if(there.begin(), there.end(),
                               [&](const NamedTemplate& each) { return each.name == plan.chat_template; });
  if (at != there.end()) {
    plan.chat_template = std::move(at->source);
    return;
  }
  std::vector<std::string> names;
  for (const NamedTemplate& each : there) names.push_back(each.name);
  conflict(settings, "chat_template",
           "Jinja text or a .jinja file as chat_template, or the name of one of the tokenizer's templates",
           fmt::format("'{}'; {}.{}", base::cut_text(plan.chat_template, 200),
                       names.empty() ? std::string("the tokenizer has no templates with names")
                                     : fmt::format("the tokenizer has {}", fmt::join(names, ", ")),
                       base::did_you_mean(plan.chat_template, names)),
           "the name of a template of another program",
           "write the template itself, or remove it for the model's own");
}

}  // namespace hone::config
