#include "config/write_plan.h"

#include <fmt/format.h>

namespace hone::config {

std::string_view method_word(Method method) {
  switch (method) {
    case Method::kSft:
      return "sft";
    case Method::kGrpo:
      return "grpo";
    case Method::kRloo:
      return "rloo";
    case Method::kDpo:
      return "dpo";
    case Method::kOnlineDpo:
      return "online-dpo";
    case Method::kReward:
      return "reward";
    case Method::kKto:
      return "kto";
  }
  return "";
}

const Schema& method_schema(Method method) {
  switch (method) {
    case Method::kGrpo:
      return grpo_schema();
    case Method::kRloo:
      return rloo_schema();
    case Method::kDpo:
      return dpo_schema();
    case Method::kOnlineDpo:
      return online_dpo_schema();
    case Method::kReward:
      return reward_schema();
    case Method::kKto:
      return kto_schema();
    case Method::kSft:
      break;
  }
  return sft_schema();
}

std::string write_plan(const Plan& plan) {
  std::string out = fmt::format("# hone {0}, resolved. The same run again: hone {0} --config plan.yaml\n",
                                method_word(plan.method));
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
