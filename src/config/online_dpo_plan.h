// The part of a plan that online-dpo has beyond sft: TRL's rules for sampling, scores and the loss.
#pragma once

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// What is read as a number, and lora_dropout; written back, so that plan.yaml shows what is used. UserError
// for a beta that is none, or not above 0.
void resolve_online_dpo(Settings& settings);

// Plan::policy and Plan::online of resolved settings; batches and max_length of `plan` are there already.
// UserError for what does not go together: max_new_tokens that leave no room for a prompt within max_length
// (TRL warns, and then scores tokens against the wrong rows), neither rewards nor a judge, both, a judge's
// option without a judge.
void fill_online_dpo(Plan& plan, const Settings& settings);

}  // namespace hone::config
