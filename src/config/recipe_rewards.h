// open-r1's options of its rewards, as the parameters of the words in reward_funcs.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"

namespace hone::config {

// "cosine" with cosine_max_len: 500 is "cosine(max_len=500)". Words with parameters of their own stay.
std::string with_reward_options(const std::string& word, const Settings& settings);

// A note for each of these options that is set for a reward which reward_funcs does not name.
std::vector<std::string> idle_reward_options(const Settings& settings);

}  // namespace hone::config
