#include "config/write_plan.h"

#include <fmt/format.h>

namespace hone::config {

std::string write_plan(const Plan& plan) {
  std::string out = fmt::format("# hone {0}, resolved. The same run again: hone {0} --config plan.yaml\n",
                                method_name(plan.method));
  const Schema& schema = method_schema(plan.method);
  std::string_view group;
  for (const auto& [name, value] : plan.resolved) {
    const Option* option = schema.find(name);
    if (option != nullptr && option->group != group) {
      group = option->group;
      out += fmt::format("\n# {}\n", group);
    }
    out += fmt::format("{}: {}\n", name, value);
  }
  return out;
}

}  // namespace hone::config
