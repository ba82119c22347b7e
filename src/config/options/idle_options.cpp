#include "config/options/idle_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "config/methods/recipe_rewards.h"

namespace hone::config {
namespace {

// The options `names` are idle where `holds`, which reads the options `reads`.
struct IdleRule {
  std::string_view names;
  std::string_view reads;
  bool (*holds)(const Settings&);
  std::string_view why;
  bool tell =
      false;  // a changed value gets a note here; else the part of the plan that reads the option tells it
};

bool is_one_of(const Settings& settings, const char* option, std::initializer_list<std::string_view> words) {
  const std::string word = settings.text(option);
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool runs_evaluations(const Settings& settings) {
  return settings.text("eval_strategy") != "no" || settings.flag("eval_on_start");
}

bool corrects_sampler(const Settings& settings) {
  return settings.is_set("vllm_importance_sampling_correction") &&
         settings.flag("vllm_importance_sampling_correction");
}

bool packs_rows(const Settings& settings) {
  return settings.flag("packing") || settings.flag("eval_packing");
}

const std::vector<IdleRule>& idle_rules() {
  using S = Settings;
  static const std::vector<IdleRule> all = {
      {kOnlyOfAdapters, "use_peft", [](const S& s) { return !s.flag("use_peft"); },
       "the whole model is trained (use_peft: false)"},
      {kOnlyOfFullTraining, "use_peft", [](const S& s) { return s.flag("use_peft"); },
       "an adapter is trained (use_peft: true)"},
      {kOfNewAdapters, "adapter_name_or_path",
       [](const S& s) { return !s.text("adapter_name_or_path").empty(); }, "the adapter has its own"},
      {"bnb_4bit_quant_type use_bnb_nested_quant", "load_in_4bit",
       [](const S& s) { return !s.flag("load_in_4bit"); }, "load_in_4bit is false", true},
      {"packing_strategy", "packing eval_packing", [](const S& s) { return !packs_rows(s); },
       "packing is false", true},
      {"warmup_steps", "lr_scheduler_type",
       [](const S& s) {
         return is_one_of(s, "lr_scheduler_type", {"constant", "reduce_lr_on_plateau", "greedy"});
       },
       "this lr_scheduler_type has no warm-up"},
      {"num_train_epochs", "max_steps", [](const S& s) { return s.integer("max_steps") > 0; },
       "max_steps says when the run ends"},
      {"logging_steps", "logging_strategy eval_strategy eval_steps",
       [](const S& s) {
         return !is_one_of(s, "logging_strategy", {"steps"}) &&
                !(is_one_of(s, "eval_strategy", {"steps"}) && s.value("eval_steps").is_null());
       },
       "logging_strategy is not steps"},
      {"save_steps", "save_strategy", [](const S& s) { return !is_one_of(s, "save_strategy", {"steps"}); },
       "save_strategy is not steps"},
      {"save_total_limit", "save_strategy", [](const S& s) { return is_one_of(s, "save_strategy", {"no"}); },
       "save_strategy is no"},
      {"eval_steps", "eval_strategy", [](const S& s) { return !is_one_of(s, "eval_strategy", {"steps"}); },
       "eval_strategy is not steps"},
      {"per_device_eval_batch_size num_generations_eval", "eval_strategy eval_on_start",
       [](const S& s) { return !runs_evaluations(s); }, "eval_strategy is no"},
      {"sample_steps", "sample_prompts", [](const S& s) { return s.value("sample_prompts").is_null(); },
       "there are no sample_prompts"},
      {"eval_reward_rows", "eval_reward_funcs",
       [](const S& s) { return s.list("eval_reward_funcs").empty(); }, "there are no eval_reward_funcs"},
      {"vllm_importance_sampling_mode vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min "
       "vllm_importance_sampling_cap",
       "vllm_importance_sampling_correction", [](const S& s) { return !corrects_sampler(s); },
       "vllm_importance_sampling_correction is not set to true"},
      {"delta", "loss_type", [](const S& s) { return is_one_of(s, "loss_type", {"cispo", "sapo", "vespo"}); },
       "this loss_type has no two-sided clip"},
      {"importance_sampling_level delta use_bias_correction_kl entropy_coef use_adaptive_entropy "
       "off_policy_mask_threshold",
       "loss_type", [](const S& s) { return is_one_of(s, "loss_type", {"gmpo"}); },
       "loss_type gmpo does not read it", true},
      {"max_num_gen_batches", "filter_groups", [](const S& s) { return !s.flag("filter_groups"); },
       "filter_groups is false"},
      {"drafts filter_groups lmbda seq_kd", "replay", [](const S& s) { return !s.text("replay").empty(); },
       "the completions are those of a file", true},
      {"filter_groups", "dataset_streaming", [](const S& s) { return s.flag("dataset_streaming"); },
       "of streamed rows there are no further ones to choose from", true},
      {"num_completions_to_print log_unique_prompts", "log_completions",
       [](const S& s) { return !s.flag("log_completions"); }, "log_completions is false"},
      {"judge_model judge_prompt judge_api_key_env", "judge",
       [](const S& s) { return s.text("judge").empty(); }, "there is no judge"}};
  return all;
}

// adam_beta1 and its like with another optimizer, which config/derived/optim_args.h tells.
std::string idle_adam(const Settings& settings, std::string_view name) {
  if (name != "adam_beta1" && name != "adam_beta2" && name != "adam_epsilon") return {};
  const std::string optim = settings.text("optim");
  const bool lion = optim.find("lion") != std::string::npos && name != "adam_epsilon";
  if (lion || optim.find("adamw") != std::string::npos) return {};
  return fmt::format("optim {} does not read it", optim);
}

bool reads_all(const Settings& settings, std::string_view names) {
  const std::vector<std::string> words = split_words(names);
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& name) { return settings.schema().find(name) != nullptr; });
}

bool any_wrong(const Settings& settings, std::string_view names) {
  const std::vector<std::string> words = split_words(names);
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& name) { return settings.is_wrong(name); });
}

const IdleRule* rule_of(const Settings& settings, std::string_view name) {
  for (const IdleRule& rule : idle_rules()) {
    if (!contains_word(rule.names, name) || !reads_all(settings, rule.reads)) continue;
    if (!any_wrong(settings, rule.reads) && rule.holds(settings)) return &rule;
  }
  return nullptr;
}

}  // namespace

std::string idle_reason(const Settings& settings, const Option& option) {
  if (option.option_class == OptionClass::kIgnored) return std::string(option.reason);
  if (option.option_class == OptionClass::kRefused) return {};
  if (!option.needed_option.empty() && !settings.is_wrong(option.needed_option)) {
    if (std::string unmet = settings.unmet_need(option); !unmet.empty()) return unmet;
  }
  if (const IdleRule* rule = rule_of(settings, option.name)) return std::string(rule->why);
  if (!settings.is_wrong("optim")) {
    if (std::string adam = idle_adam(settings, option.name); !adam.empty()) return adam;
  }
  return settings.is_wrong("reward_funcs") ? std::string() : idle_reward_option(settings, option.name);
}

std::vector<std::string> idle_notes(const Settings& settings) {
  std::vector<std::string> notes;
  for (const Option& option : settings.schema().options) {
    if (option.option_class != OptionClass::kSupported || !settings.changed(option.name)) continue;
    const IdleRule* rule = rule_of(settings, option.name);
    if (rule != nullptr && rule->tell)
      notes.push_back(fmt::format("{}: not used, {}", option.name, rule->why));
  }
  return notes;
}

std::vector<std::string> names_of_idle_rules() {
  std::vector<std::string> out;
  for (const IdleRule& rule : idle_rules()) {
    for (const std::string_view names : {rule.names, rule.reads}) {
      for (std::string& name : split_words(names)) out.push_back(std::move(name));
    }
  }
  return out;
}

}  // namespace hone::config
