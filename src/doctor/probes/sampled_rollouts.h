// Completions that the run would sample before its first step, scored as it would score them: what P6 looks
// at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/open_run.h"
#include "train/rollout_batch.h"

namespace hone::doctor {

struct RolloutLimits {
  std::int64_t prompts = 32;
  double seconds = 60;              // no new prompts after that
  std::int64_t max_new_tokens = 0;  // 0: the run's
  std::int64_t samples = 0;         // of a prompt; 0: num_generations
  bool scored = true;               // rewards are called
};

// Groups of completions, with what was counted while they were made.
struct SampledRollouts {
  std::vector<train::RolloutSample> completions;  // group by group
  std::vector<std::string> reward_names;
  std::vector<std::string> warnings;  // of rewards
  std::vector<double> totals;         // [completions] weighted sum of the rewards; NaN: nobody scored it
  std::int64_t group = 0;
  std::int64_t tokens = 0;
  double rollout_seconds = 0, reward_seconds = 0;
  std::int64_t groups() const {
    return group == 0 ? 0 : static_cast<std::int64_t>(completions.size()) / group;
  }
};

// UserError of a reward, or of the generation. The run stays as it was: randomness of its own, nothing kept.
SampledRollouts sample_rollouts(const train::OpenedRun& run, const RolloutLimits& limits);

// The share of groups of `size` whose rewards are all alike, when each completion is right with probability
// p.
double dead_share(double p, std::int64_t size);

}  // namespace hone::doctor
