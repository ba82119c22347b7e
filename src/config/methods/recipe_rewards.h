// open-r1's options of its rewards, as the parameters of the words in reward_funcs; and what its scripts and those that
// grew from them do without an option.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"

namespace hone::config {

// "cosine" with cosine_max_len: 500 is "cosine(max_len=500)". Words with parameters of their own stay.
std::string with_reward_options(const std::string& word, const Settings& settings);

// A note for each of these options that is set for a reward which reward_funcs does not name.
std::vector<std::string> idle_reward_options(const Settings& settings);

// "no cosine in reward_funcs" of an option of these whose reward nobody names; empty for others.
std::string idle_reward_option(const Settings& settings, std::string_view name);

// The rewards of a recipe that leaves them to its script: open-r1's script and those that grew from it (X-R1)
// take accuracy and format where none is named. Such a recipe is known by names that only they have. Sets
// reward_funcs; returns the note, or nothing where the recipe names rewards, replays, or is another's.
std::vector<std::string> apply_script_rewards(Settings& settings);

// Such a recipe's rows without prompt: sets rows_without_prompt, as its script reads them. Rows with one are unchanged.
void apply_script_prompts(Settings& settings);

}  // namespace hone::config
