// hone merge: an adapter folded into a copy of its base.
#include "adapters/merge.h"

#include <iostream>

#include "commands/base_of_adapter.h"
#include "commands/commands.h"
#include "config/tool_plans.h"

namespace hone::commands {

int merge(const std::vector<std::string>& arguments) {
  const config::MergePlan plan = config::parse_merge(arguments);
  say_notes(plan.notes);
  const std::string model = base_of_adapter(plan.model_name_or_path, plan.adapter_name_or_path);
  adapters::merge_to_folder(model, plan.adapter_name_or_path, plan.output);
  std::cout << plan.output << ": " << model << " with " << plan.adapter_name_or_path << " merged into it\n";
  return 0;
}

}  // namespace hone::commands
