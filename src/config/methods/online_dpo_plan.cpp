#include <fmt/format.h>

#include "base/json_tools.h"
#include "base/strings/plural.h"
#include "config/methods.h"
#include "config/methods/policy_plan.h"
#include "config/option_secrets.h"

namespace hone::config {
namespace {

constexpr std::int64_t kPair = 2;  // completions of a prompt

bool is_address(const std::string& word) {
  return word.starts_with("http://") || word.starts_with("https://");
}

void check_judge(const Settings& settings, const Plan& plan) {
  const OnlineDpoPlan& online = plan.online;
  const bool replays = !plan.policy.replay.empty();
  require_variable_name(settings.text("judge_api_key_env"), settings.where("judge_api_key_env"));
  if (online.judge.empty()) {
    for (const char* name : {"judge_model", "judge_api_key_env", "judge_prompt"}) {
      if (!settings.text(name).empty()) {
        conflict(settings, name, "a judge beside " + std::string(name), "no judge", "", "set judge");
      }
    }
    if (!plan.policy.reward_funcs.empty() || replays) return;
    conflict(settings, "reward_funcs", "at least one reward in reward_funcs, or a judge", "none", "",
             "write reward_funcs: accuracy_reward, or rewards.py:my_function, in the YAML file or after "
             "--reward_funcs");
  }
  if (!plan.policy.reward_funcs.empty()) {
    conflict(settings, "judge", "either rewards or a judge", "both",
             "a judge says which of two completions is the better and gives no scores to add",
             "remove judge, or reward_funcs and reward_model_path");
  }
  if (online.missing_eos_penalty) {
    conflict(settings, "missing_eos_penalty", "no missing_eos_penalty with a judge",
             base::short_json(settings.value("missing_eos_penalty")), "there is no score to subtract it from",
             "remove it: the judge sees where a completion stops");
  }
  if (is_address(online.judge) && online.judge_model.empty()) {
    conflict(settings, "judge", "judge_model with a judge that is an address", "it is not set",
             "an OpenAI-compatible API needs the name of a model",
             "set judge_model; GET " + online.judge + "/models lists the available ones");
  }
  if (!is_address(online.judge) && !(online.judge_model + online.judge_prompt).empty()) {
    conflict(settings, online.judge_model.empty() ? "judge_prompt" : "judge_model",
             "a judge that is an address, http://host:port/v1", online.judge,
             "a Python function writes its own question", "remove it");
  }
  if (!is_address(online.judge) && !settings.text("judge_api_key_env").empty()) {
    conflict(settings, "judge_api_key_env", "a judge that is an address, https://host/v1", online.judge,
             "a Python function manages its own keys", "remove it");
  }
  if (online.judge_prompt.empty()) return;
  for (const char* field : {"{prompt}", "{first}", "{second}"}) {
    if (online.judge_prompt.find(field) != std::string::npos) continue;
    conflict(settings, "judge_prompt", "{prompt}, {first} and {second} in judge_prompt",
             fmt::format("no {}", field), "the judge would not see it", "");
  }
}

void check_weights(const Settings& settings, const PolicyPlan& policy) {
  const std::size_t weights = policy.reward_weights.size(), rewards = policy.reward_funcs.size();
  if (weights == 0 || weights == rewards || (rewards == 0 && !policy.replay.empty())) return;
  conflict(settings, "reward_weights",
           rewards == 1 ? "one weight, for the one reward"
                        : fmt::format("a weight for each of the {} rewards", rewards),
           base::counted(static_cast<std::int64_t>(weights), "weight"),
           settings.text("reward_model_path").empty() ? "" : "reward_model_path is the first of the rewards",
           "");
}

}  // namespace

void resolve_online_dpo(Settings& settings) {
  resolve_numbers(settings, "reward_weights");
  if (settings.is_set("beta")) resolve_numbers(settings, "beta");
  const base::Json& betas = settings.value("beta");
  bool good = betas.is_array() && !betas.empty();
  for (const base::Json& beta : good ? betas : base::Json::array()) good = good && beta.get<double>() > 0;
  if (!good) {
    conflict(settings, "beta", "beta above 0, or a list of such values, one per epoch", yaml_text(betas),
             "with beta 0 nothing keeps the policy near the reference, and ipo divides by beta",
             "the "
             "default is "
             "0.1");
  }
}

void finish_online_dpo(Plan& plan, const Settings& settings) {
  PolicyPlan& policy = plan.policy;
  finish_sampling(policy, settings);
  policy.num_generations = policy.num_generations_eval = kPair;
  policy.steps_per_generation = plan.accumulation();
  policy.generation_batch_size = sequences_of(settings, kPair);
  if (policy.max_completion_length >= plan.max_length) {
    conflict(settings, settings.is_set("max_new_tokens") ? "max_new_tokens" : "max_length",
             fmt::format("max_new_tokens below max_length, {}", plan.max_length),
             fmt::format("{}", policy.max_completion_length),
             "the prompt is cut to max_length minus max_new_tokens, which would leave nothing of it",
             fmt::format("write max_length: {}", policy.max_completion_length + 512));
  }
  check_judge(settings, plan);
  check_weights(settings, policy);
  if (!policy.replay.empty()) check_replay(settings);
}

}  // namespace hone::config
