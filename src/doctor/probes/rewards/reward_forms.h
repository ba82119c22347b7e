// Which forms of the right answer a reward pays for, and whether the model can write them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/verdict.h"
#include "doctor/probes/rewards/reward_answers.h"

namespace hone::doctor {

// What a reward was asked, in this order; the first `golds` are forms of the right answer.
struct AskedForms {
  const std::vector<Answered>& calls;
  const std::vector<Texts>& texts;  // of the same calls
  std::size_t golds = 0;
  double lowest = 0, highest = 0;  // scores of all calls
};

// Returns whether every row has the same score in all calls, a number.
bool is_of_row(const std::vector<Answered>& calls);
// RL-02 of a function that gives every answer one score, in all rows or in each row its own. `compared`: the
// column that it wants by name; empty: none. `only`: no other reward of the run says more.
base::Verdict judge_one_score(const AskedForms& asked, const RewardRows& rows, const std::string& reward,
                              const std::string& compared, bool only);

// RL-03: every answer that earns more than the lowest score has more tokens than max_completion_length.
// Empty: one fits, or none earns more.
std::optional<base::Verdict> judge_room(const AskedForms& asked, const RewardRows& rows,
                                        std::int64_t most_tokens, const std::string& reward);

// RL-04: it pays for the whole text of a column that ends in `#### answer`, and for no form of that answer.
std::optional<base::Verdict> judge_whole_text(const AskedForms& asked, const std::string& reward,
                                              const std::string& column);

// The right answers as a model would write them where the column has floats of whole numbers ("7.0" is 7);
// empty: it has none.
Texts whole_numbers(const RewardRows& rows, const std::string& column);
// RL-04 of a reward that pays for 7.0 and not for 7. Both are calls of the same rows.
std::optional<base::Verdict> judge_whole_numbers(const Answered& best, const Answered& whole,
                                                 const Texts& texts, const std::string& reward,
                                                 const std::string& column);

}  // namespace hone::doctor
