// Rewards of a run: how its plan opens them, and whether its data have what they read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/plan.h"
#include "rewards/open_reward.h"
#include "train/batches/rollout_source.h"

namespace hone::train {

base::Json template_kwargs(const config::Plan& plan);  // the option chat_template_kwargs; null: none

// `plan` must outlive what is opened with them.
rewards::OpenOptions reward_options(const config::Plan& plan);

// Columns of the data that each of the rewards requires; `words` name them.
std::vector<std::vector<std::string>> needed_columns(
    const std::vector<std::string>& words, const std::vector<std::unique_ptr<rewards::Reward>>& rewards);

// UserError when `prompts` lack a column that one of `words` requires: it would raise on every call. `option` names the words.
void require_columns(const std::string& option, const std::vector<std::string>& words,
                     const std::vector<std::vector<std::string>>& needed, const PolicyPrompts& prompts);

}  // namespace hone::train
