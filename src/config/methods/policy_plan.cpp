#include "config/methods/policy_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/plural.h"
#include "base/strings/suggest.h"
#include "config/methods.h"
#include "config/methods/generation_kwargs.h"
#include "config/methods/recipe_rewards.h"
#include "config/named_word.h"

namespace hone::config {
namespace {

using base::Json;
using base::UserError;

constexpr double kGmpoEpsilon = 0.4;  // GMPOConfig's default of epsilon, of a log ratio

// "6 or 12": the multiples of `step` beside `value`.
std::string nearest_multiples(std::int64_t value, std::int64_t step) {
  const std::int64_t below = value / step * step;
  return below > 0 ? fmt::format("{} or {}", below, below + step) : fmt::format("{}", below + step);
}

// "3 or 6": divisors of `value` beside `near`, at least `least`.
std::string nearest_divisors(std::int64_t value, std::int64_t near, std::int64_t least) {
  std::int64_t below = 0, above = 0;
  const auto look_at = [&](std::int64_t divisor) {
    if (divisor < least) return;
    if (divisor <= near) below = std::max(below, divisor);
    if (divisor > near && (above == 0 || divisor < above)) above = divisor;
  };
  for (std::int64_t divisor = 1; divisor <= value / divisor; ++divisor) {
    if (value % divisor != 0) continue;
    look_at(divisor);
    look_at(value / divisor);
  }
  if (below == 0) return above == 0 ? std::string() : fmt::format("{}", above);
  return above == 0 ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

std::int64_t product(const Settings& settings, std::int64_t batch, std::int64_t steps,
                     std::string_view what = "a generation batch") {
  constexpr std::int64_t kMost = 10'000'000;
  if (steps <= kMost / batch) return batch * steps;
  conflict(settings, "per_device_train_batch_size", fmt::format("{} of at most {} completions", what, kMost),
           fmt::format("{} per micro-batch, {}", base::counted(batch, "completion"),
                       base::counted(steps, "micro-batch", "micro-batches")),
           "", "lower per_device_train_batch_size or gradient_accumulation_steps");
}

// " on 4 ranks"
std::string of_ranks(const Settings& settings) {
  return settings.ranks() > 1 ? fmt::format(" on {} ranks", settings.ranks()) : std::string();
}

// GRPOConfig.__post_init__: the two options say the same thing, and TRL takes one of them.
void resolve_generation_batch(Settings& settings) {
  // completions that all ranks train on at once
  const std::int64_t batch =
      product(settings, settings.integer("per_device_train_batch_size"), settings.ranks());
  const auto size = settings.maybe_integer("generation_batch_size");
  const auto steps = settings.maybe_integer("steps_per_generation");
  if (size && steps && *size != product(settings, batch, *steps)) {
    conflict(settings, "generation_batch_size", "either generation_batch_size or steps_per_generation",
             fmt::format("{} and {}, with per_device_train_batch_size {}{}", *size, *steps,
                         settings.integer("per_device_train_batch_size"), of_ranks(settings)),
             fmt::format("{} of {} are {}", base::counted(*steps, "step"), base::counted(batch, "completion"),
                         *steps * batch),
             "remove one of the two");
  }
  if (size && *size % batch != 0) {
    conflict(settings, "generation_batch_size",
             fmt::format("generation_batch_size a multiple of per_device_train_batch_size{}, {}",
                         of_ranks(settings), batch),
             fmt::format("{}", *size), "",
             fmt::format("write generation_batch_size: {}", nearest_multiples(*size, batch)));
  }
  const std::int64_t resolved =
      size ? *size / batch : steps.value_or(settings.integer("gradient_accumulation_steps"));
  settings.replace("steps_per_generation", resolved);
  settings.replace("generation_batch_size", product(settings, batch, resolved));
  product(settings, batch, settings.integer("gradient_accumulation_steps"), "an optimizer step");
}

// What the user set last of those that make a generation batch.
const char* told(const Settings& settings) {
  for (const char* name : {"num_generations", "generation_batch_size", "steps_per_generation"}) {
    if (settings.is_set(name)) return name;
  }
  return "per_device_train_batch_size";
}

// "num_generations: 4 or 8, or per_device_train_batch_size: 12", the nearest values that make whole groups.
std::string whole_groups(const Settings& settings, std::int64_t group) {
  const std::int64_t batch = settings.integer("per_device_train_batch_size");
  const std::int64_t steps = settings.integer("steps_per_generation") * settings.ranks();
  const std::int64_t size = settings.integer("generation_batch_size");
  std::string out;
  if (const std::string divisors = nearest_divisors(size, group, 2); !divisors.empty()) {
    out = fmt::format("num_generations: {}, or ", divisors);
  }
  if (settings.is_set("generation_batch_size") && !settings.is_set("steps_per_generation")) {
    return out + fmt::format("generation_batch_size: {}",
                             nearest_multiples(size, std::lcm(batch * settings.ranks(), group)));
  }
  return out + fmt::format("per_device_train_batch_size: {}",
                           nearest_multiples(batch, group / std::gcd(group, steps)));
}

void resolve_groups(Settings& settings) {
  const auto group = settings.maybe_integer("num_generations");
  if (!group || *group < 2) {
    conflict(settings, "num_generations", "num_generations at least 2",
             group ? fmt::format("{}", *group) : "null",
             "the advantage of a completion is its reward relative to the others of its prompt",
             fmt::format("the default is {}", settings.schema().find("num_generations")->default_text));
  }
  const std::int64_t batch = settings.integer("per_device_train_batch_size");
  const std::int64_t steps = settings.integer("steps_per_generation");
  const std::int64_t size = settings.integer("generation_batch_size");
  if (size % *group != 0) {
    conflict(settings, told(settings),
             fmt::format("whole groups of num_generations {} in a generation batch", *group),
             fmt::format("{}: per_device_train_batch_size {} x steps_per_generation {}{}",
                         base::counted(size, "completion"), batch, steps, of_ranks(settings)),
             "", "set " + whole_groups(settings, *group));
  }
  const std::int64_t eval_group = settings.maybe_integer("num_generations_eval").value_or(*group);
  settings.replace("num_generations_eval", eval_group);
  const std::int64_t eval_batch = settings.integer("per_device_eval_batch_size");
  const bool evaluates = settings.text("eval_strategy") != "no" || settings.flag("eval_on_start");
  if (evaluates && eval_batch % eval_group != 0) {
    conflict(
        settings, "per_device_eval_batch_size",
        fmt::format("whole groups of num_generations_eval {} in an evaluation batch", eval_group),
        fmt::format("per_device_eval_batch_size {}", eval_batch),
        settings.value("num_generations_eval") == settings.value("num_generations") &&
                !settings.is_set("num_generations_eval")
            ? "num_generations_eval is num_generations unless it is set"
            : "",
        fmt::format("set per_device_eval_batch_size: {}, or num_generations_eval: {}",
                    nearest_multiples(eval_batch, eval_group), nearest_divisors(eval_batch, eval_group, 1)));
  }
}

void resolve_grpo(Settings& settings) {
  const std::string scale = settings.text("scale_rewards");
  if (scale == "true") settings.replace("scale_rewards", "group");
  if (scale == "false") settings.replace("scale_rewards", "none");
  const Json cap = settings.value("vllm_importance_sampling_cap");
  if (!cap.is_null()) settings.replace("vllm_importance_sampling_clip_max", cap);
  // TRL corrects under vLLM alone, whose log-probabilities are another program's.
  const bool asked = settings.is_set("vllm_importance_sampling_correction");
  if (!asked) settings.replace("vllm_importance_sampling_correction", false);
  const bool wide = settings.text("loss_type") == "gmpo" && !settings.is_set("epsilon");
  if (wide) settings.replace("epsilon", kGmpoEpsilon);
}

void check_correction(const Settings& settings, const PolicyPlan& plan) {
  const auto& least = plan.importance_sampling_clip_min;
  const auto& most = plan.importance_sampling_clip_max;
  if (least && most && *least >= *most) {
    conflict(
        settings, "vllm_importance_sampling_clip_min",
        fmt::format("vllm_importance_sampling_clip_min below vllm_importance_sampling_clip_max, {}", *most),
        fmt::format("{}", *least), "", "lower it, or raise the other");
  }
  if (!plan.importance_sampling_correction) return;
  const std::string& mode = plan.importance_sampling_mode;
  if (mode.ends_with("truncate") && !least && !most) {
    conflict(settings, "vllm_importance_sampling_mode",
             fmt::format("a bound with vllm_importance_sampling_mode: {}", mode), "both bounds are null", "",
             "set vllm_importance_sampling_clip_max: 3.0");
  }
  if (plan.loss_type == "vespo" && mode.starts_with("sequence")) {
    conflict(settings, "vllm_importance_sampling_mode",
             "token_mask or token_truncate for vllm_importance_sampling_mode with loss_type: vespo", mode,
             "with vllm_importance_sampling_correction vespo sums the weights of a sequence itself",
             "set vllm_importance_sampling_mode: token_mask");
  }
}

// An environment may have a reward of its own; which is known when its factory has run.
void check_policy(const Settings& settings, const PolicyPlan& plan, bool has_environment) {
  check_correction(settings, plan);
  if (plan.entropy_coef_min > plan.entropy_coef_max) {
    conflict(settings, settings.is_set("entropy_coef_min") ? "entropy_coef_min" : "entropy_coef_max",
             fmt::format("entropy_coef_min of at most entropy_coef_max, {}", plan.entropy_coef_max),
             fmt::format("{}", plan.entropy_coef_min), "",
             "lower entropy_coef_min, or raise entropy_coef_max");
  }
  const bool replays = !plan.replay.empty();
  if (plan.reward_funcs.empty() && !replays && !has_environment) {
    conflict(
        settings, "reward_funcs", "at least one reward in reward_funcs", "none", "",
        "write reward_funcs: accuracy_reward, or rewards.py:my_function, in the YAML file or after "
        "--reward_funcs; open-r1's scripts take [accuracy, format, tag_count] where a recipe names none");
  }
  const std::size_t rewards = plan.reward_funcs.size();
  if (!plan.reward_weights.empty() && plan.reward_weights.size() != rewards && !(replays && rewards == 0)) {
    conflict(settings, "reward_weights",
             rewards == 1 ? "one weight, for the one reward"
                          : fmt::format("a weight for each of the {} rewards", rewards),
             base::counted(static_cast<std::int64_t>(plan.reward_weights.size()), "weight"),
             settings.text("reward_model_name_or_path").empty()
                 ? ""
                 : "reward_model_name_or_path is the first of the rewards",
             "");
  }
  if (replays) check_replay(settings);
}

// Settings that are right and yet do nothing, and the warnings that TRL prints.
void note_grpo(const Settings& settings, const PolicyPlan& plan, std::vector<std::string>& notes) {
  const auto idle = [&](std::initializer_list<const char*> names, std::string_view why) {
    for (const char* name : names) {
      if (settings.changed(name)) notes.push_back(fmt::format("{}: not used, {}", name, why));
    }
  };
  const std::string& loss = plan.loss_type;
  const bool clipped = loss != "cispo" && loss != "sapo" && loss != "vespo";
  if (!clipped) idle({"delta"}, fmt::format("loss_type {} has no two-sided clip", loss));
  const bool inside =
      plan.entropy_coef >= plan.entropy_coef_min && plan.entropy_coef <= plan.entropy_coef_max;
  if (plan.use_adaptive_entropy && !inside) {
    notes.push_back(fmt::format("entropy_coef: starts outside of entropy_coef_min {} and entropy_coef_max {}",
                                plan.entropy_coef_min, plan.entropy_coef_max));
  }
  if (plan.multi_objective_aggregation == "normalize_then_sum") {
    idle({"scale_rewards"}, "normalize_then_sum divides by the standard deviations itself");
  }
  if (plan.importance_sampling_correction) {
    notes.emplace_back(
        "vllm_importance_sampling_correction: applied as set; hone samples with the trainer's own weights, "
        "so that without top_k, top_p, min_p or a penalty every weight is 1");
  } else if (!settings.flag("vllm_importance_sampling_correction")) {
    idle({"vllm_importance_sampling_mode", "vllm_importance_sampling_clip_max",
          "vllm_importance_sampling_clip_min"},
         "vllm_importance_sampling_correction is not set to true");
  }
  if (!settings.value("vllm_importance_sampling_cap").is_null()) {
    notes.emplace_back("vllm_importance_sampling_cap: the former name of vllm_importance_sampling_clip_max");
  }
  if (loss == "cispo" && plan.epsilon_high && *plan.epsilon_high < 1) {
    notes.push_back(
        fmt::format("epsilon_high: for cispo it is the largest ratio itself, here {}; the paper takes 5.0",
                    *plan.epsilon_high));
  }
  const bool sequence = plan.importance_sampling_level == "sequence";
  if (loss == "luspo" && !sequence) {
    notes.emplace_back("importance_sampling_level: luspo's paper has sequence");
  }
  if (loss == "vespo" && sequence) {
    notes.emplace_back("importance_sampling_level: vespo weighs sequences itself; its paper has token");
  }
  if (sequence && (loss == "bnpo" || loss == "dr_grpo" || loss == "dapo" || loss == "cispo")) {
    notes.push_back(fmt::format(
        "importance_sampling_level: with loss_type {} a sequence is weighted by its length; GSPO's paper has "
        "grpo",
        loss));
  }
}

// GMPOTrainer._compute_loss reads none of these. A note of the others that are set: options/idle_options.cpp.
void leave_to_gmpo(Plan& plan, const Settings& settings) {
  PolicyPlan& policy = plan.policy;
  policy.importance_sampling_level = "token";
  policy.delta.reset();
  policy.use_bias_correction_kl = false;
  policy.entropy_coef = 0;
  policy.use_adaptive_entropy = false;
  policy.off_policy_mask_threshold.reset();
  policy.importance_sampling_correction = false;
  plan.router_aux_loss_coef = 0;
  const auto note = [&](bool told, std::string_view name) {
    if (told) plan.notes.push_back(fmt::format("{}: not used, loss_type gmpo does not read it", name));
  };
  note(settings.flag("vllm_importance_sampling_correction"), "vllm_importance_sampling_correction");
  note(settings.changed("router_aux_loss_coef"), "router_aux_loss_coef");
}

void check_clip_range(const Settings& settings) {
  const Json& range = settings.value("reward_clip_range");
  if (range.is_null() || (range.size() == 2 && range[0] < range[1])) return;
  conflict(settings, "reward_clip_range", "two numbers, the lower first, for reward_clip_range",
           yaml_text(range), "", "write reward_clip_range: [-10, 10]");
}

// Every environment has a name where there are several, and no name twice.
void check_tools(const Plan& plan, const Settings& settings) {
  const std::vector<std::string>& all = plan.acting.environment;
  for (const std::string& word : plan.acting.tools) {
    if (word.find(':') == std::string::npos && word.find('.') == std::string::npos) {
      conflict(settings, "tools", "path/to/file.py:function, package.module:function or hone.tools.NAME",
               fmt::format("'{}'", word), "a name alone does not say where the function is",
               fmt::format("write tools.py:{}, with the file that it is in", word));
    }
  }
  std::set<std::string> names;
  for (const std::string& word : all) {
    const std::string name = split_named(word).first;
    if ((all.size() == 1 || !name.empty()) && names.insert(name).second) continue;
    conflict(settings, "environment", "a name of its own for each environment, where there are several",
             fmt::format("'{}'", word), "the rows' column environment chooses by name",
             "write environment: {shop: shop.py:Shop, shell: shell.py:Shell}");
  }
}

// What makes the completions itself calls its tools itself.
void check_rollout(const Plan& plan, const Settings& settings) {
  const std::string& word = plan.acting.rollout;
  if (word.empty()) return;
  if (word.find(':') == std::string::npos) {
    conflict(settings, "rollout", "path/to/file.py:function or package.module:function",
             fmt::format("'{}'", word), "a name alone does not say where the function is",
             fmt::format("write rollout.py:{}, with the file that it is in", word));
  }
  for (const char* name : {"tools", "environment"}) {
    if (settings.list(name).empty()) continue;
    conflict(settings, name, "either a rollout function or tools and environment", "both",
             "the function makes whole completions, so that hone samples no turn whose calls it could answer",
             fmt::format("call the tools in the function, and remove {}; or remove rollout", name));
  }
}

}  // namespace

// Lists hold words; these are numbers.
void resolve_numbers(Settings& settings, const char* name) {
  const std::vector<std::string> words = settings.list(name);
  if (settings.value(name).is_null()) return;
  Json numbers = Json::array();
  for (const std::string& word : words) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) {
      conflict(settings, name, fmt::format("numbers for option {}", name), fmt::format("'{}'", word));
    }
    numbers.push_back(value);
  }
  settings.replace(name, std::move(numbers));
}

void check_replay(const Settings& settings) {
  if (settings.flag("dump_rollouts")) {
    conflict(settings, "dump_rollouts", "either dump_rollouts or replay", "both",
             "a replay samples nothing that could be written", "remove one of the two");
  }
  for (const char* name : {"eval_strategy", "eval_on_start"}) {
    const bool on = settings.value(name).is_string() ? settings.text(name) != "no" : settings.flag(name);
    if (!on) continue;
    conflict(settings, name, "no evaluation with replay",
             fmt::format("{}: {}", name, yaml_text(settings.value(name))), "a replay samples nothing",
             fmt::format("remove {}", name));
  }
}

const char* reward_model_option(const Settings& settings) {
  return settings.schema().find("reward_model_path") != nullptr ? "reward_model_path"
                                                                : "reward_model_name_or_path";
}

std::vector<std::string> reward_specs(const Settings& settings) {
  std::vector<std::string> words;
  const std::string model = settings.text(reward_model_option(settings));
  if (!model.empty()) words.push_back(model);
  for (const std::string& word : settings.list("reward_funcs")) {
    if (word.empty()) {
      conflict(settings, "reward_funcs", "names in reward_funcs", "an empty name", "", "remove it");
    }
    words.push_back(with_reward_options(word, settings));
  }
  return words;
}

void resolve_policy(Settings& settings) {
  resolve_generation_batch(settings);
  resolve_groups(settings);
  resolve_numbers(settings, "reward_weights");
  if (settings.schema().find("loss_type") != nullptr) {
    resolve_grpo(settings);
  } else {
    resolve_numbers(settings, "reward_clip_range");
    check_clip_range(settings);
  }
  if (settings.value("epsilon_high").is_null()) settings.replace("epsilon_high", settings.value("epsilon"));
}

std::int64_t sequences_of(const Settings& settings, std::int64_t group) {
  return product(settings, product(settings, group, settings.integer("per_device_train_batch_size")),
                 settings.integer("gradient_accumulation_steps") * settings.ranks());
}

void finish_sampling(PolicyPlan& plan, const Settings& settings) {
  if (plan.max_completion_length == 0) {
    conflict(settings, "max_completion_length", "a number of tokens for max_completion_length", "null",
             "memory is planned for the longest completion", "the default is 512");
  }
  apply_generation_kwargs(settings, plan);
  const Json& variables = settings.value("chat_template_kwargs");
  if (!variables.is_null() && !variables.empty()) plan.chat_template_kwargs = base::dump_json(variables);
  if (settings.schema().find("reward_funcs") != nullptr) plan.reward_funcs = reward_specs(settings);
}

void finish_tools(Plan& plan, const Settings& settings) {
  plan.acting.max_tool_calling_iterations =
      settings.maybe_integer("max_tool_calling_iterations").value_or(-1);
  check_tools(plan, settings);
}

void finish_policy(Plan& plan, const Settings& settings) {
  PolicyPlan& policy = plan.policy;
  finish_sampling(policy, settings);
  // TRL's RepeatSampler
  plan.train_sampling_strategy = plan.shuffle_dataset ? RowOrder::kRandom : RowOrder::kSequential;
  plan.dataloader_drop_last = true;
  for (std::string& note : idle_reward_options(settings)) plan.notes.push_back(std::move(note));
  if (policy.loss_type == "gmpo") leave_to_gmpo(plan, settings);
  if (plan.method == Method::kGrpo) {
    note_grpo(settings, policy, plan.notes);
  } else {
    policy.loss_type = "rloo";
    policy.importance_sampling_level = "sequence";
    policy.scale_rewards = "none";
  }
  finish_tools(plan, settings);
  check_rollout(plan, settings);
  check_policy(settings, policy, !plan.acting.environment.empty());
}

}  // namespace hone::config
