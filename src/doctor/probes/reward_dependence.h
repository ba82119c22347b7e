// What the scores of a reward depend on besides the sample itself, by experiment: the same completions again, with
// one thing changed.
#pragma once

#include <string>

#include "doctor/examination.h"
#include "doctor/probes/reward_answers.h"

namespace hone::doctor {

struct RewardDependence {
  bool on_column = false;                       // rows with the gold of another row score otherwise
  bool on_order = false;                        // the same rows in another order score otherwise
  bool on_others = false;                       // a row scores otherwise beside fewer rows
  std::string order_evidence, others_evidence;  // of the first row
};

// `first`: what the reward gave for `texts` when asked plainly. `column` may be empty: not tested. Four calls at most.
RewardDependence test_dependence(rewards::Reward& reward, const RewardRows& rows, const Texts& texts,
                                 const Answered& first, const std::string& column);

// RL-18 of a user's function; empty: its scores depend on nothing else.
Verdicts judge_dependence(const RewardDependence& found, const std::string& reward);

}  // namespace hone::doctor
