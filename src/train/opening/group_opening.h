// The opening of a run whose advantages compare the completions of a prompt.
#pragma once

#include <string>

#include "train/opening/sampling_opening.h"

namespace hone::train {

SamplingOpening group_opening(const GroupLoss& loss, std::string (*loss_line)(const config::Plan&));

// ", beta 0.04, epsilon 0.2 to 0.28"
std::string clipped_words(const config::PolicyPlan& policy);
// ", 2 iterations per batch"; empty: one.
std::string iteration_words(const config::PolicyPlan& policy);

}  // namespace hone::train
