// What a loss of GRPO or RLOO means (docs/design.md, Loss 0 in GRPO): it has at least seven causes, two of
// them healthy. A function of each step's numbers.
#pragma once

#include <cstdint>
#include <optional>

#include "base/verdict.h"
#include "train/facts/step_facts.h"

namespace hone::doctor {

enum class LossCase {
  kHealthyZero,     // near 0, a gradient, no KL term: 0 by construction
  kHealthyKl,       // near 0, a gradient, beta > 0: about beta * KL
  kHealthyNonzero,  // not near 0, a gradient: lengths against advantages, no progress
  kTruncated,       // 0, no gradient, all groups dead, at least 80 % cut: RL-03
  kLowest,          // 0, no gradient, all groups dead, rewards at their minimum: RL-04, or too hard
  kHighest,         // 0, no gradient, all groups dead, rewards at their maximum: too easy, RL-02
  kDead,            // 0, no gradient, all groups dead, rewards between: RL-02
  // no gradient although some groups are live: mask_truncated_completions left out every sample: RL-03
  kMasked,
  kGradientCut,  // no gradient, some groups live and samples were trained on: GRAD-01, GRAD-02, GRAD-04
  kNotFinite,    // NUM-02
  kUnknown,      // no row applies: a step whose own samples had no advantage
};

// The mean reward relative to the rewards seen so far in the run.
enum class RewardPlace { kLowest, kBetween, kHighest };

struct LossFacts {
  double loss = 0, grad_norm = 0;
  double reward = 0;
  RewardPlace place = RewardPlace::kBetween;
  double dead_groups = 0;        // share of groups whose rewards are all equal
  double cut = 0;                // share of completions that ended at max_completion_length
  double scored = 1;             // share of completions that a reward gave a score
  bool all_skipped = false;      // no sample of the step had a gradient: none was trained on
  bool masks_truncated = false;  // mask_truncated_completions
  double beta = 0;
};

// The facts of one step (means over several would mix rows); empty without a finite "reward". Dead groups are
// TRL's "frac_reward_zero_std" where "dead_groups" is absent. `rows`: samples of an optimizer step, to tell
// all_skipped; 0: not known.
std::optional<LossFacts> loss_facts(const train::StepFacts& step, double beta, std::int64_t rows);

// Without history: a reward of at most 0 is the lowest when all are equal, a greater one the highest.
RewardPlace place_of(double reward, double lowest_seen, double highest_seen);

LossCase loss_case(const LossFacts& facts);

// The row as a verdict. Healthy rows are notes (RL-01); the others are failures, which the caller may lower
// if there is little evidence. kUnknown: an empty verdict.
base::Verdict loss_verdict(const LossFacts& facts);

}  // namespace hone::doctor
