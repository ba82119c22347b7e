// hone merge: an adapter folded into a copy of its base.
#include "adapters/merge.h"

#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "commands/commands.h"
#include "config/tool_plans.h"

namespace hone::commands {

namespace {

// The base that adapter_config.json names.
std::string recorded_base(const base::fs::path& adapter) {
  const auto path = adapter / "adapter_config.json";
  const auto config = base::parse_json(base::read_text(path), path.string());
  if (!config.is_object()) {
    throw base::UserError({.where = path.string(),
                           .expected = "a JSON object",
                           .found = config.type_name(),
                           .cause = "the file was edited, or is not PEFT's",
                           .fix = "name a folder that PEFT or hone saved"});
  }
  const auto name = config.value("base_model_name_or_path", base::Json(nullptr));
  if (name.is_string() && base::fs::exists(name.get<std::string>())) return name.get<std::string>();
  throw base::UserError({.where = path.string(),
                         .expected = "base_model_name_or_path to name a folder or file that is here",
                         .found = base::dump_json(name),
                         .cause = "the adapter was trained elsewhere, or from a name of the hub",
                         .fix = "name the base: --model_name_or_path FOLDER"});
}

}  // namespace

int merge(const std::vector<std::string>& arguments) {
  const config::MergePlan plan = config::parse_merge(arguments);
  say_notes(plan.notes);
  const std::string model =
      plan.model_name_or_path.empty() ? recorded_base(plan.adapter_name_or_path) : plan.model_name_or_path;
  adapters::merge_to_folder(model, plan.adapter_name_or_path, plan.output);
  std::cout << plan.output << ": " << model << " with " << plan.adapter_name_or_path << " merged into it\n";
  return 0;
}

}  // namespace hone::commands
