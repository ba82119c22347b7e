// Why the loss of GRPO and RLOO is what it is, in one line under the first logged step: "loss 0" has more
// than one meaning there, and a gradient norm tells them apart.
#pragma once

#include <string>

#include "train/step_facts.h"

namespace hone::report {

// Of a logging record with "loss", "grad_norm" and "reward" (dead groups: "dead_groups", or TRL's
// "frac_reward_zero_std"); "" where there is nothing to explain. Without a newline.
//   loss near 0, a gradient     the advantages of a group sum to 0: normal
//   no gradient, groups dead    no signal: rewards are equal within every group
//   no gradient otherwise       nothing was left to train on
//   another loss                it measures lengths against advantages, not progress
std::string loss_words(const train::LogRecord& record);

}  // namespace hone::report
