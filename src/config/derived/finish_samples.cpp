#include "config/derived/finish_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "config/methods/policy_plan.h"
#include "config/methods/recipe_rewards.h"

namespace hone::config {
namespace {

constexpr const char* kPrompts = "sample_prompts";
constexpr const char* kRewards = "eval_reward_funcs";
constexpr std::int64_t kMostSampleRows = 1000;
constexpr std::int64_t kMaxNewTokens = 256;

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

bool is_file_name(const std::string& text) {
  constexpr std::array<std::string_view, 4> kEnds = {".jsonl", ".json", ".parquet", ".csv"};
  return text.find('\n') == std::string::npos &&
         std::ranges::any_of(kEnds, [&](std::string_view end) { return text.ends_with(end); });
}

void resolve_prompts(SamplesPlan& plan, const Settings& settings) {
  for (const std::string& prompt : plan.sample_prompts) {
    if (prompt.empty())
      conflict(settings, kPrompts, "prompts in sample_prompts", "an empty prompt", "", "remove it");
  }
  const bool one = plan.sample_prompts.size() == 1;
  if (!one || !(is_number(plan.sample_prompts[0]) || is_file_name(plan.sample_prompts[0]))) {
    plan.sample_texts = plan.sample_prompts;
    return;
  }
  const std::string& word = plan.sample_prompts[0];
  if (!is_number(word)) {
    plan.sample_file = word;
    return;
  }
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), plan.sample_rows);
  if (error == std::errc() && plan.sample_rows >= 1 && plan.sample_rows <= kMostSampleRows) return;
  conflict(settings, kPrompts, fmt::format("from 1 to {} rows for sample_prompts", kMostSampleRows), word,
           "a number is that of the rows to take prompts from",
           "remove sample_prompts to sample nothing; a prompt of digits goes into a file of prompts");
}

bool evaluates(const Settings& settings) {
  return settings.text("eval_strategy") != "no" || settings.flag("eval_on_start");
}

void check_rewards(const Plan& plan, const Settings& settings) {
  for (const std::string& word : plan.eval_reward_funcs) {
    if (word.empty())
      conflict(settings, kRewards, "names in eval_reward_funcs", "an empty name", "", "remove it");
  }
  if (evaluates(settings)) return;
  conflict(settings, kRewards, "an evaluation, with eval_reward_funcs", "eval_strategy: no",
           "they score completions of the rows to evaluate", "set eval_strategy: steps, and eval_dataset");
}

}  // namespace

void finish_samples(Plan& plan, const Settings& settings) {
  if (settings.schema().find(kPrompts)->option_class == OptionClass::kRefused) return;
  if (plan.samples_prompts()) resolve_prompts(plan, settings);
  if (plan.scores_completions()) check_rewards(plan, settings);
  if (samples(plan.method)) {
    for (std::string& word : plan.eval_reward_funcs) word = with_reward_options(word, settings);
  }
  const bool samples_any = plan.samples_prompts() || plan.scores_completions();
  if (samples_any && plan.sample_max_new_tokens == 0)
    plan.sample_max_new_tokens = samples(plan.method) ? plan.policy.max_completion_length : kMaxNewTokens;
  const auto idle = [&](const char* name, const char* without) {
    if (settings.changed(name)) plan.notes.push_back(fmt::format("{}: not used without {}", name, without));
  };
  if (!plan.samples_prompts()) idle("sample_steps", kPrompts);
  if (!plan.scores_completions()) idle("eval_reward_rows", kRewards);
  if (!samples_any) idle("sample_max_new_tokens", "sample_prompts or eval_reward_funcs");
}

}  // namespace hone::config
