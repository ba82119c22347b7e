// What the answers that a reward was asked say of it: RL-02 to RL-07 and RL-18 of probe P8. A few rows and
// answers prove little: a failure is what was seen of every row of the data (a function that never gives a
// score), or of any call. What a function does with the answers of the probe is a warning.
#pragma once

#include "doctor/examination.h"
#include "doctor/probes/rewards/tried_reward.h"

namespace hone::doctor {

// `only`: the run has no other reward, or none of them says more.
Verdicts judge_reward(const TriedReward& tried, bool only);

}  // namespace hone::doctor
