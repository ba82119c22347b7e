// Columns that a reward looks up and the data do not have: `kwargs.get("solution")` where the rows have
// answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/verdict.h"
#include "doctor/probes/rewards/reward_answers.h"

namespace hone::doctor {

// The columns that a reward of the user's code reads, by its source.
struct ReadColumns {
  std::vector<std::string> needed, looked_up;  // Reward::required_columns() and read_columns()
  std::string reward;                          // as verdicts name it
};

// Returns those of `looked_up` that no row has. Empty where a column that it reads is there: a function may
// know several names.
std::vector<std::string> absent_columns(const ReadColumns& read, const RewardRows& rows);

// Says what the scores of the probe tell of such a function.
enum class ScoresTell { kNothing, kSomething, kError };

// RL-05: a warning where the absent column is the cause of scores that tell nothing, or has a name that data
// sets give to the right answer; else a note. Empty: no column is absent.
std::optional<base::Verdict> judge_absent_columns(const ReadColumns& read, const RewardRows& rows,
                                                  ScoresTell scores);

}  // namespace hone::doctor
