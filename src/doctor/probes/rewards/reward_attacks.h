// Policies that never read the task, and right answers that were made wrong: what a reward pays them (RL-07, RL-04).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/verdict.h"
#include "doctor/probes/rewards/reward_answers.h"

namespace hone::doctor {

class TriedReward;

struct RewardAttacks {
  std::vector<Answered> blind;      // of each blind policy, one call
  std::vector<Answered> corrupted;  // the best form of the gold, and in \boxed{}, with another answer in it
  double commonest = 0;             // the share of the rows that have the most frequent gold
  bool any() const { return !blind.empty() || !corrupted.empty(); }
};

// Asks until `late` says so. `best`: the form of the right answers that scored highest, one a row; `column`: theirs.
RewardAttacks attack_reward(rewards::Reward& reward, const RewardRows& rows, const Texts& best,
                            const std::string& column, const std::function<bool()>& late);

// Another answer: a number with 5 % more, a short text with two letters exchanged. Empty: a long text, or one whose
// change is no other answer.
std::string corrupted_gold(const std::string& gold);

// Above half of what the right answer earns over the lowest score seen, a blind policy or a wrong answer is a warning. A
// constant (42, Yes, A B C D E) is compared with the share of the most frequent right answer, by Wilson's lower bound.
// Empty: nothing is paid so.
std::optional<base::Verdict> judge_attacks(const TriedReward& tried);

}  // namespace hone::doctor
