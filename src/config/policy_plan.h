// The part of a plan that grpo and rloo have beyond sft: TRL's rules for batches, sampling and the loss.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// What GRPOConfig.__post_init__ resolves (generation_batch_size, steps_per_generation, num_generations_eval,
// ...), written back, so that plan.yaml shows what is used. UserError where TRL raises, with values that
// work.
void resolve_policy(Settings& settings);

// Of resolved settings. Adds a line to `notes` for what is set and has no effect. UserError for what does not
// go together.
PolicyPlan make_policy_plan(Method method, const Settings& settings, std::vector<std::string>& notes);

// What sampling methods share: sampling, rewards, completions, share_prompt, replay and dump_rollouts.
PolicyPlan make_sampling_plan(const Settings& settings);
// `group` completions for each prompt of a step: group * per_device_train_batch_size *
// gradient_accumulation_steps. UserError when that is beyond reason.
std::int64_t sequences_of(const Settings& settings, std::int64_t group);
void check_replay(const Settings& settings);  // UserError for what a replay cannot do
// The words of a list, written back as numbers. UserError for one that is none.
void resolve_numbers(Settings& settings, const char* name);

// reward_model_name_or_path (online-dpo: reward_model_path) and reward_funcs, in the order in which TRL's
// script joins them. UserError for a reward without a name.
std::vector<std::string> reward_words(const Settings& settings);
const char* reward_model_option(const Settings& settings);

// The files that rewards name are there: `file.py:function`, a model folder, an interpreter given as a path.
void check_reward_files(const Settings& settings);

}  // namespace hone::config
