#include "config/recipe_rewards.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hone::config {
namespace {

struct RewardOption {
  std::string_view word;       // of reward_funcs
  std::string_view parameter;  // of the reward
  std::string_view option;
};

constexpr std::array<RewardOption, 10> kRewardOptions = {{
    {"cosine", "min_value_wrong", "cosine_min_value_wrong"},
    {"cosine", "max_value_wrong", "cosine_max_value_wrong"},
    {"cosine", "min_value_correct", "cosine_min_value_correct"},
    {"cosine", "max_value_correct", "cosine_max_value_correct"},
    {"cosine", "max_len", "cosine_max_len"},
    {"repetition_penalty", "ngram_size", "repetition_n_grams"},
    {"repetition_penalty", "max_penalty", "repetition_max_penalty"},
    {"code_format", "language", "code_language"},
    {"soft_overlong_punishment", "max_completion_len", "max_completion_len"},
    {"soft_overlong_punishment", "soft_punish_cache", "soft_punish_cache"},
}};

}  // namespace

std::string with_reward_options(const std::string& word, const Settings& settings) {
  std::string inner;
  for (const RewardOption& one : kRewardOptions) {
    if (one.word != word || !settings.changed(one.option)) continue;
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
    const bool used = std::find(words.begin(), words.end(), one.word) != words.end();
    if (!used) notes.push_back(fmt::format("{}: not used, no {} in reward_funcs", one.option, one.word));
  }
  return notes;
}

std::string idle_reward_option(const Settings& settings, std::string_view name) {
  for (const RewardOption& one : kRewardOptions) {
    if (one.option != name) continue;
    for (const char* option : {"reward_funcs", "eval_reward_funcs"}) {
      const std::vector<std::string> words = settings.list(option);
      if (std::find(words.begin(), words.end(), one.word) != words.end()) return {};
    }
    return fmt::format("no {} in reward_funcs", one.word);
  }
  return {};
}

std::vector<std::string> apply_script_rewards(Settings& settings) {
  constexpr std::array<std::string_view, 4> kSigns = {"dataset_configs", "vllm_device", "max_prompt_length",
                                                      "dataset_prompt_column"};
  constexpr std::array<std::string_view, 3> kOwn = {"reward_funcs", "reward_model_name_or_path", "replay"};
  if (settings.schema().command != "grpo") return {};
  for (const std::string_view name : kOwn) {
    if (settings.is_wrong(name) || settings.changed(name)) return {};
  }
  const ReadName* sign = nullptr;
  for (const ReadName& read : settings.names()) {
    // Tutorials and SageMaker's recipes, whose scripts have rewards of their own.
    if (read.name == "dataset_id_or_path" || read.name == "model_id") return {};
    if (std::find(kSigns.begin(), kSigns.end(), read.name) != kSigns.end()) sign = &read;
  }
  if (sign == nullptr || sign->where.starts_with("--")) return {};
  const std::size_t weights =
      settings.is_wrong("reward_weights") ? 0 : settings.list("reward_weights").size();
  const bool tags = weights == 3;
  if (weights != 0 && weights != 2 && !tags) return {};
  base::Json words = {"accuracy", "format"};
  if (tags) words.push_back("tag_count");
  settings.put("reward_funcs", words, sign->where);
  return {fmt::format(
      "reward_funcs: [accuracy, format{}], since this recipe names none, and these are what the scripts of open-r1 and X-R1 "
      "take then{}; write reward_funcs to choose. The system turn that such a script adds is not in the recipe: write "
      "system_prompt, and dataset_prompt_column where the rows have no prompt",
      tags ? ", tag_count" : "", tags ? "" : " (later ones of open-r1 add tag_count)")};
}

}  // namespace hone::config
