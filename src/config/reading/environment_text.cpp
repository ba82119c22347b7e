#include "config/reading/environment_text.h"

#include <cstdlib>
#include <optional>

namespace hone::config {
namespace {

constexpr std::string_view kTexts =
    "chat_template system_prompt dataset_system_prompt prompt_template text_template judge_prompt sample_prompts "
    "lora_target_modules lora_exclude_modules lora_target_parameters lora_modules_to_save unfrozen_parameters rank_pattern "
    "alpha_pattern layers_pattern vllm_structured_outputs_regex vllm_guided_decoding_regex stop_strings generation_kwargs "
    "chat_template_kwargs dataset_columns env";
constexpr std::string_view kResults =
    "output_dir run_name wandb_name mlflow_run_name hub_model_id push_to_hub_model_id hub_revision hub_model_revision project "
    "wandb_project wandb_entity wandb_run_group mlflow_experiment_name logging_dir benchmarks callbacks tags";
constexpr std::string_view kAddresses = "reward_funcs eval_reward_funcs judge";

bool is_first(char c) {
  return (c >= 'A' && c <= 'Z') || c == '_';
}

std::size_t name_end(std::string_view text, std::size_t at) {
  if (at >= text.size() || !is_first(text[at])) return at;
  while (at < text.size() && (is_first(text[at]) || (text[at] >= '0' && text[at] <= '9'))) ++at;
  return at;
}

struct Variable {
  std::string name;
  std::optional<std::string> otherwise;
  std::size_t end = 0;  // behind it
};

// The variable whose '$' is at `at`.
std::optional<Variable> variable_at(std::string_view text, std::size_t at) {
  constexpr std::string_view kOmega = "oc.env:";
  if (at > 0 && text[at - 1] == '\\') return std::nullopt;
  const bool braces = at + 1 < text.size() && text[at + 1] == '{';
  std::size_t from = at + (braces ? 2 : 1);
  const bool omega = braces && text.substr(from).starts_with(kOmega);
  if (omega) from += kOmega.size();
  const std::size_t end = name_end(text, from);
  if (end - from < 2) return std::nullopt;
  Variable out{.name = std::string(text.substr(from, end - from)), .otherwise = {}, .end = end};
  if (!braces) return out;
  const std::size_t close = text.find('}', end);
  if (close == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(end, close - end);
  const std::string_view before = omega ? "," : ":-";
  if (!rest.empty() && !rest.starts_with(before)) return std::nullopt;
  if (!rest.empty()) out.otherwise = std::string(rest.substr(before.size()));
  out.end = close + 1;
  return out;
}

// The name in "${model.name}" at `at`; empty: another text.
std::string reference_at(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with("${") || text.substr(at).starts_with("${oc.env:")) return {};
  const std::size_t close = text.find('}', at);
  if (close == std::string_view::npos) return {};
  const std::string_view name = text.substr(at + 2, close - at - 2);
  const bool lower = !name.empty() && name.front() >= 'a' && name.front() <= 'z';
  return lower && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.:") == std::string_view::npos
             ? std::string(name)
             : std::string();
}

}  // namespace

ExpandedText expand_environment(std::string_view text) {
  ExpandedText out;
  for (std::size_t at = 0; at < text.size();) {
    if (std::string name = reference_at(text, at); !name.empty()) out.references.push_back(std::move(name));
    const std::optional<Variable> variable = text[at] == '$' ? variable_at(text, at) : std::nullopt;
    if (!variable) {
      out.text += text[at++];
      continue;
    }
    const char* value = std::getenv(variable->name.c_str());  // NOLINT(concurrency-mt-unsafe): before threads
    if (value != nullptr || variable->otherwise) {
      out.text += value != nullptr ? std::string(value) : *variable->otherwise;
      out.found.push_back(variable->name);
    } else {
      out.text += text.substr(at, variable->end - at);
      out.missing.push_back(variable->name);
    }
    at = variable->end;
  }
  return out;
}

bool takes_environment(std::string_view name) {
  return !contains_word(kTexts, name);
}

bool keeps_variables(std::string_view name, std::string_view text) {
  return contains_word(kAddresses, name) && text.find("://") != std::string_view::npos;
}

bool names_results(std::string_view name) {
  return contains_word(kResults, name);
}

}  // namespace hone::config
