#include "config/write_plan.h"

#include <fmt/format.h>

#include "config/option_table.h"

namespace hone::config {

std::string_view method_word(Method method) {
  switch (method) {
    case Method::kSft:
      return "sft";
    case Method::kGrpo:
      return "grpo";
    case Method::kRloo:
      return "rloo";
  }
  return "";
}

std::string write_plan(const Plan& plan) {
  std::string out = fmt::format("# hone {0}, resolved. The same run again: hone {0} --config plan.yaml\n",
                                method_word(plan.method));
  std::string_view group;
  for (const auto& [name, value] : plan.resolved) {
    const Option* option = sft_schema().find(name);
    if (option != nullptr && option->group != group) {
      group = option->group;
      out += fmt::format("\n# {}\n", group);
    }
    out += fmt::format("{}: {}\n", name, value);
  }
  return out;
}

}  // namespace hone::config
