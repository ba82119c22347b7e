// Completions that the run would sample before its first step, scored as in the run: the input of P6.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/batches/rollout_batch.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

struct RolloutLimits {
  std::int64_t prompts = 32;
  double seconds = 60;              // no new prompts after this time
  std::int64_t max_new_tokens = 0;  // 0: the run's
  std::int64_t samples = 0;         // per prompt; 0: num_generations
  bool scored = true;               // rewards are called
};

// Groups of completions, with statistics.
struct SampledRollouts {
  std::vector<train::RolloutSample> completions;  // group by group
  std::vector<std::string> reward_names;
  std::vector<std::string> warnings;  // of rewards
  std::vector<double> totals;         // [completions] weighted sum of the rewards; NaN: not scored
  std::int64_t group = 0;
  std::int64_t tokens = 0;
  double rollout_seconds = 0, reward_seconds = 0;
  std::int64_t groups() const {
    return group == 0 ? 0 : static_cast<std::int64_t>(completions.size()) / group;
  }
};

// UserError of a reward, or of the generation. The run is unchanged: separate randomness, and nothing is
// kept.
SampledRollouts sample_rollouts(const train::RunView& run, const RolloutLimits& limits);

// The share of groups of `size` whose rewards are all equal, when each completion is correct with probability
// p.
double dead_share(double p, std::int64_t size);

}  // namespace hone::doctor
