#include "config/methods/recipe_rewards.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>

namespace hone::config {
namespace {

struct RewardOption {
  std::string_view word;       // of reward_funcs; several: blanks between them
  std::string_view parameter;  // of the reward
  std::string_view option;
};

constexpr std::array<RewardOption, 11> kRewardOptions = {{
    {"cosine", "min_value_wrong", "cosine_min_value_wrong"},
    {"cosine", "max_value_wrong", "cosine_max_value_wrong"},
    {"cosine", "min_value_correct", "cosine_min_value_correct"},
    {"cosine", "max_value_correct", "cosine_max_value_correct"},
    {"cosine", "max_len", "cosine_max_len"},
    {"repetition_penalty", "ngram_size", "repetition_n_grams"},
    {"repetition_penalty", "max_penalty", "repetition_max_penalty"},
    {"code_format", "language", "code_language"},
    {"code binary_code", "num_parallel", "parallel_code_exec_per_proc"},
    {"soft_overlong_punishment", "max_completion_len", "max_completion_len"},
    {"soft_overlong_punishment", "soft_punish_cache", "soft_punish_cache"},
}};

bool is_for(const RewardOption& one, std::string_view word) {
  const std::string padded = fmt::format(" {} ", one.word);
  return !word.empty() && padded.find(fmt::format(" {} ", word)) != std::string::npos;
}

bool is_for_any(const RewardOption& one, const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [&](const std::string& word) { return is_for(one, word); });
}

std::string names_of(const RewardOption& one) {
  const std::size_t blank = one.word.find(' ');
  return blank == std::string_view::npos
             ? std::string(one.word)
             : fmt::format("{} or {}", one.word.substr(0, blank), one.word.substr(blank + 1));
}

bool is_any_set(const Settings& settings, std::span<const std::string_view> names) {
  return std::ranges::any_of(
      names, [&](std::string_view name) { return settings.is_wrong(name) || settings.changed(name); });
}

// The last of `signs` among the names of a GRPO recipe's file, by which recipes of open-r1's scripts are known; null:
// another recipe, such as those of tutorials and of SageMaker, whose scripts have rewards and prompts of their own.
const ReadName* find_sign(const Settings& settings, std::initializer_list<std::string_view> signs) {
  if (settings.schema().command != "grpo") return nullptr;
  const ReadName* found = nullptr;
  for (const ReadName& read : settings.names()) {
    if (read.name == "dataset_id_or_path" || read.name == "model_id") return nullptr;
    if (std::ranges::find(signs, read.name) != signs.end()) found = &read;
  }
  return found == nullptr || found->where.starts_with("--") ? nullptr : found;
}

}  // namespace

std::string with_reward_options(const std::string& word, const Settings& settings) {
  std::string inner;
  for (const RewardOption& one : kRewardOptions) {
    if (!is_for(one, word) || !settings.changed(one.option)) continue;
    const base::Json& value = settings.value(one.option);
    const std::string text = value.is_number_float() ? number_text(value.get<double>())
                             : value.is_string()     ? json_string(value.get<std::string>())
                                                     : value.dump();
    inner += fmt::format("{}{}={}", inner.empty() ? "" : ", ", one.parameter, text);
  }
  return inner.empty() ? word : fmt::format("{}({})", word, inner);
}

std::vector<std::string> idle_reward_options(const Settings& settings) {
  std::vector<std::string> notes;
  const std::vector<std::string> words = settings.list("reward_funcs");
  for (const RewardOption& one : kRewardOptions) {
    if (!settings.changed(one.option)) continue;
    if (!is_for_any(one, words))
      notes.push_back(fmt::format("{}: not used, no {} in reward_funcs", one.option, names_of(one)));
  }
  return notes;
}

std::string idle_reward_option(const Settings& settings, std::string_view name) {
  for (const RewardOption& one : kRewardOptions) {
    if (one.option != name) continue;
    for (const char* option : {"reward_funcs", "eval_reward_funcs"}) {
      if (is_for_any(one, settings.list(option))) return {};
    }
    return fmt::format("no {} in reward_funcs", names_of(one));
  }
  return {};
}

std::vector<std::string> apply_script_rewards(Settings& settings) {
  constexpr std::array<std::string_view, 3> kOwn = {"reward_funcs", "reward_model_name_or_path", "replay"};
  if (is_any_set(settings, kOwn)) return {};
  const ReadName* sign =
      find_sign(settings, {"dataset_configs", "vllm_device", "max_prompt_length", "dataset_prompt_column"});
  if (sign == nullptr) return {};
  const std::size_t weights =
      settings.is_wrong("reward_weights") ? 0 : settings.list("reward_weights").size();
  const bool tags = weights == 3;
  if (weights != 0 && weights != 2 && !tags) return {};
  base::Json words = {"accuracy", "format"};
  if (tags) words.push_back("tag_count");
  settings.put("reward_funcs", words, sign->where);
  return {fmt::format(
      "reward_funcs: [accuracy, format{}], since this recipe names none, and these are what the scripts of open-r1 and X-R1 "
      "take then{}; write reward_funcs to choose. A prompt that a row has gets no system turn of such a script: "
      "write system_prompt",
      tags ? ", tag_count" : "", tags ? "" : " (later ones of open-r1 add tag_count)")};
}

void apply_script_prompts(Settings& settings) {
  constexpr std::array<std::string_view, 3> kOwn = {"dataset_prompt_column", "dataset_columns", "replay"};
  if (is_any_set(settings, kOwn) || settings.is_set("rows_without_prompt")) return;
  const bool mixes = settings.kept("dataset_mixer") != nullptr || settings.kept("dataset_mixture") != nullptr;
  // Scripts with a system turn of their own have no option for one.
  const bool plain = settings.is_set("system_prompt") || mixes;
  const ReadName* fixed = plain ? nullptr : find_sign(settings, {"dataset_configs"});
  const ReadName* other =
      find_sign(settings, {"dataset_configs", "vllm_device", "max_prompt_length", "system_prompt"});
  if (fixed != nullptr) {
    settings.put("rows_without_prompt", "problem_r1", fixed->where);
  } else if (other != nullptr) {
    settings.put("rows_without_prompt", "problem", other->where);
  }
}

}  // namespace hone::config
