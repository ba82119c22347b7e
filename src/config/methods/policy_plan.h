// Rules that the sampling methods share: grpo, rloo and online-dpo.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// Completes a filled plan of a sampling method: generation_kwargs, chat_template_kwargs, the rewards.
void finish_sampling(PolicyPlan& plan, const Settings& settings);
void finish_tools(Plan& plan, const Settings& settings);  // tools, environment and the bound of their rounds
// The completions of a step, `group` for each prompt: group * per_device_train_batch_size *
// gradient_accumulation_steps. UserError when the product is too large.
std::int64_t sequences_of(const Settings& settings, std::int64_t group);
void check_replay(const Settings& settings);  // UserError for options that a replay does not support
// Replaces the strings of a list by numbers. UserError for one that is not a number.
void resolve_numbers(Settings& settings, const char* name);

// Returns the precision of another model beside the run's own, from a dtype's word and bf16.
Precision precision_of(std::string_view dtype, const Settings& settings);

// reward_model_name_or_path (online-dpo: reward_model_path) and reward_funcs, in the order of TRL's script.
// UserError for a reward without a name.
std::vector<std::string> reward_specs(const Settings& settings);
const char* reward_model_option(const Settings& settings);

// Checks that the files of rewards exist: `file.py:function`, a model folder, an interpreter given as a path.
void check_reward_files(const Settings& settings);

}  // namespace hone::config
