// All rewards of a run together, on answers that each of them was asked.
#pragma once

#include <string>
#include <vector>

#include "base/verdict.h"
#include "doctor/exam_part.h"
#include "doctor/probes/rewards/reward_answers.h"

namespace hone::doctor {

struct ScoredAnswers {
  std::string name;  // of the reward
  double weight = 1;
  bool pays_right = false;                       // right answers earn more than junk
  std::size_t golds = 0;                         // the first calls: forms of the right answer
  const std::vector<Answered>* calls = nullptr;  // of the same rows as the others'
};

// RL-17: rewards that add up to the same for every answer. RL-07: an empty answer, or junk, earns more than
// the right one in every form, although one reward pays for right answers. Empty: neither, or one reward.
std::vector<base::Verdict> judge_sums(const std::vector<ScoredAnswers>& all);

}  // namespace hone::doctor
