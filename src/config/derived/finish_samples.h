// sample_prompts and eval_reward_funcs, where several options say together what happens.
#pragma once

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// Resolves what sample_prompts means and sample_max_new_tokens. UserError for empty prompts, for a number of rows out of range,
// and for rewards of an evaluation that the run does not make. Notes for options that have no effect.
void finish_samples(Plan& plan, const Settings& settings);

// UserError for files of sample_prompts and eval_reward_funcs that do not exist.
void check_sample_files(const Plan& plan, const Settings& settings);

}  // namespace hone::config
