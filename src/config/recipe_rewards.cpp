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

}  // namespace hone::config
