// Answers of every kind in one call, as a generation batch has good and bad ones. Asked kind by kind, a reward
// that compares the completions of its call (r - mean, ranks, z-scores) gives each of them the same.
#pragma once

#include <string>
#include <vector>

#include "doctor/probes/rewards/reward_answers.h"
#include "doctor/probes/rewards/reward_dependence.h"
#include "doctor/probes/rewards/reward_forms.h"

namespace hone::doctor {

struct RewardMixture {
  // The kinds of `asked` with their scores of the one call, those of the first rows; empty: no row's answers
  // differ in it either, or the call failed.
  std::vector<Answered> calls;
  RewardDependence dependence;  // on the other answers of the call, and on their order
  GoldDependence gold;          // by what a right answer earns above junk in the same call
  double seconds = 0;
};

// Asks the first `most` rows. One call; three where scores differ. `column`: of right answers; "" when there is
// none.
RewardMixture ask_together(rewards::Reward& reward, const RewardRows& rows, std::size_t most,
                           const AskedForms& asked, const std::string& column);

}  // namespace hone::doctor
