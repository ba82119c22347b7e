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

// reward_model_name_or_path and reward_funcs, in the order in which TRL's script joins them. UserError for a
// reward without a name.
std::vector<std::string> reward_words(const Settings& settings);

// The files that rewards name are there: `file.py:function`, a model folder, an interpreter given as a path.
void check_reward_files(const Settings& settings);

}  // namespace hone::config
