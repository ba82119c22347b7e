// Rules of the methods that sample, which grpo, rloo and online-dpo share.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// What every method that samples makes of a filled plan: generation_kwargs, chat_template_kwargs, the
// rewards.
void finish_sampling(PolicyPlan& plan, const Settings& settings);
// `group` completions for each prompt of a step: group * per_device_train_batch_size *
// gradient_accumulation_steps. UserError when that is beyond reason.
std::int64_t sequences_of(const Settings& settings, std::int64_t group);
void check_replay(const Settings& settings);  // UserError for what a replay cannot do
// The words of a list, written back as numbers. UserError for one that is none.
void resolve_numbers(Settings& settings, const char* name);

// reward_model_name_or_path (online-dpo: reward_model_path) and reward_funcs, in the order in which TRL's
// script joins them. UserError for a reward without a name.
std::vector<std::string> reward_specs(const Settings& settings);
const char* reward_model_option(const Settings& settings);

// The files that rewards name are there: `file.py:function`, a model folder, an interpreter given as a path.
void check_reward_files(const Settings& settings);

}  // namespace hone::config
