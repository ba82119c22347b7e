#include "config/methods.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "config/method_of.h"
#include "config/write_plan.h"

namespace hone::config {
namespace {

constexpr MethodTraits groups(std::string_view only_loss) {
  return {.groups = true, .only_loss = only_loss, .beta = [](const Plan& plan) { return plan.policy.beta; }};
}

constexpr MethodTraits kDpoTraits = {
    .beta = [](const Plan& plan) { return plan.preference.beta; },
    .label_smoothing = [](const Plan& plan) { return plan.preference.label_smoothing; }};
constexpr MethodTraits kKtoTraits = {.shares_prompts = false,
                                     .beta = [](const Plan& plan) { return plan.kto.beta; }};
constexpr MethodTraits kCpoTraits = {
    .label_smoothing = [](const Plan& plan) { return plan.cpo.label_smoothing; }};

constexpr MethodTraits kDistillTraits = {
    .rewarded = false, .shares_prompts = false, .reference_option = "teacher_model_name_or_path"};

// In the order of the enum.
constexpr std::array<MethodRow, 10> kMethods = {{
    {Method::kSft, "sft", "SFTConfig", "", resolve_sft, finish_sft, {.shares_prompts = false}},
    {Method::kGrpo, "grpo", "GRPOConfig", "GRPOScriptArguments", resolve_policy, finish_policy, groups("")},
    {Method::kRloo, "rloo", "RLOOConfig", "RLOOScriptArguments", resolve_policy, finish_policy,
     groups("rloo")},
    {Method::kDpo, "dpo", "DPOConfig", "", resolve_preference, finish_preference, kDpoTraits},
    {Method::kOnlineDpo,
     "online-dpo",
     "OnlineDPOConfig",
     "",
     resolve_online_dpo,
     finish_online_dpo,
     {.completion_limit = "max_new_tokens"}},
    {Method::kReward,
     "reward",
     "RewardConfig",
     "",
     resolve_reward_model,
     finish_reward_model,
     {.scores = true}},
    {Method::kKto, "kto", "KTOConfig", "", [](Settings&) {}, finish_kto, kKtoTraits},
    {Method::kCpo, "cpo", "CPOConfig", "", resolve_cpo, finish_cpo, kCpoTraits},
    {Method::kOrpo, "orpo", "ORPOConfig", "", resolve_orpo, [](Plan&, const Settings&) {}},
    {Method::kDistill, "distill", "DistillationConfig", "", [](Settings&) {}, finish_distill, kDistillTraits},
}};

// The row `name` moves behind the row `after`.
void place(std::vector<Option>& rows, std::string_view name, std::string_view after) {
  const auto at = [&rows](std::string_view wanted) {
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const Option& one) { return one.name == wanted; });
    base::require(row != rows.end(), "config::place", "the name of another row of the method");
    return row;
  };
  Option row = std::move(*at(name));
  rows.erase(at(name));
  rows.insert(at(after) + 1, std::move(row));
}

Schema schema_of(const MethodRow& method) {
  Schema schema{.command = std::string(method.word), .options = {}};
  std::vector<std::string_view> groups;
  for (const Option& option : method_options()) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
    if (!contains_word(option.methods, method.word)) continue;
    Option row = option.changed_for(method.word);
    if (row.origin == kMethodConfig) row.origin = method.config;
    if (row.origin == kMethodScript) row.origin = method.script;
    schema.options.push_back(std::move(row));
  }
  const auto rank = [&groups](const Option& row) {
    return std::find(groups.begin(), groups.end(), row.group) - groups.begin();
  };
  std::stable_sort(schema.options.begin(), schema.options.end(),
                   [&](const Option& a, const Option& b) { return rank(a) < rank(b); });
  for (const Option& option : method_options()) {
    for (const auto& [methods, change] : option.changes) {
      if (!change.after.empty() && contains_word(methods, method.word))
        place(schema.options, option.name, change.after);
    }
  }
  return schema;
}

template <Method Which>
const Schema& schema_once() {
  static const Schema schema = schema_of(method_row(Which));
  return schema;
}

}  // namespace

const std::vector<Option>& method_options() {
  static const std::vector<Option> all = [] {
    std::vector<Option> rows;
    for (const auto& part :
         {model_options(), adapter_options(), data_options(), reward_options(), sampling_options(),
          loss_options(), cpo_options(), training_options(), optimizer_options(), completion_options(),
          logging_options(), evaluation_options(), sample_options(), saving_options(), machine_options(),
          doctor_options(), recipe_options()}) {
      rows.insert(rows.end(), part.begin(), part.end());
    }
    return rows;
  }();
  return all;
}

const MethodRow& method_row(Method method) {
  return kMethods.at(static_cast<std::size_t>(method));
}

const MethodTraits& method_traits(Method method) {
  return method_row(method).traits;
}

std::string_view method_name(Method method) {
  return method_row(method).word;
}

std::optional<Method> find_method(std::string_view word) {
  const auto row =
      std::find_if(kMethods.begin(), kMethods.end(), [&](const MethodRow& one) { return one.word == word; });
  return row == kMethods.end() ? std::nullopt : std::optional(row->method);
}

std::vector<std::string> method_names() {
  std::vector<std::string> out;
  for (const MethodRow& row : kMethods) out.emplace_back(row.word);
  return out;
}

const Schema& method_schema(Method method) {
  static constexpr auto kSchemas = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return std::array{&schema_once<kMethods[Index].method>...};
  }(std::make_index_sequence<kMethods.size()>());
  return kSchemas.at(static_cast<std::size_t>(method))();
}

}  // namespace hone::config
