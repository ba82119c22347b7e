// These experiments find what the scores of a reward depend on besides the sample itself: they score the same
// completions again, with one thing changed.
#pragma once

#include <cstdint>
#include <string>

#include "doctor/examination.h"
#include "doctor/probes/rewards/reward_answers.h"

namespace hone::doctor {

std::string shown_score(double value);  // NaN: None

struct RewardDependence {
  bool on_order = false;                        // the same rows in another order score otherwise
  bool on_others = false;                       // a row scores otherwise beside fewer rows
  bool of_call = false;                         // all completions of a call score the same, good and bad ones
  std::string order_evidence, others_evidence;  // of the first row
  bool is_any() const { return on_order || on_others || of_call; }
};

// `first`: what the reward gave for `texts` when asked plainly. Three calls at most.
RewardDependence test_dependence(rewards::Reward& reward, const RewardRows& rows, const Texts& texts,
                                 const Answered& first);

// Good answers and bad ones in turn: one score for all of them although each kind alone has another. One call
// at most.
void add_call_dependence(RewardDependence& out, rewards::Reward& reward, const RewardRows& rows,
                         const Texts& good_texts, const Answered& good, const Texts& bad_texts,
                         const Answered& bad);

// What the same answers earn when the column with the right ones is another row's: of several forms of the
// right answer, since a reward may know one of them only.
struct GoldDependence {
  std::int64_t agrees = 0, disagrees = 0;  // answers that score higher with their own gold, and lower
  double own = 0, other = 0;               // sums of their scores
  std::string evidence;                    // of the first that differs: "gold: rows.jsonl:3: 0, then 1"
  bool on_column() const { return agrees + disagrees > 0; }
  bool is_turned() const { return disagrees > 0 && agrees == 0; }  // right answers earn less than wrong ones
};

// Adds one form of the right answer; one call.
void add_gold_dependence(GoldDependence& out, rewards::Reward& reward, const RewardRows& rows,
                         const Texts& texts, const Answered& first, const std::string& column);

// RL-18 of a user's function; empty: its scores depend on nothing else.
Verdicts judge_dependence(const RewardDependence& found, const std::string& reward);

}  // namespace hone::doctor
