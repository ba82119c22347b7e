// RL-07: one reward has come to its ceiling, and the others stand: the form is learned, and the answers are not.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/json.h"
#include "doctor/watch/finding.h"
#include "train/facts/step_facts.h"

namespace hone::doctor {

class SaturationWatch {
 public:
  // `total_batches`: generation batches of the run. `weights`: reward_weights, empty for all 1.
  explicit SaturationWatch(std::int64_t total_batches = 0, std::vector<double> weights = {});

  Findings see(const train::RolloutFacts& rollouts);

  base::Json state() const;
  void restore(const base::Json& state);  // BadWatchState (watch_state.h)
  void reset_evidence();

 private:
  struct Reward {
    std::string name;
    bool seen = false;
    double lowest = 0, highest = 0;  // of all its scores
    std::deque<double> first;        // means of the run's first batches
    std::deque<double> means;        // of the newest batches, newest last
    bool at_ceiling() const;
    bool began_below() const;  // what stands at its ceiling from the first batch on was not learned here
    bool rises() const;
  };

  std::size_t window_;  // batches
  std::vector<double> weights_;
  std::vector<Reward> rewards_;
};

// One-sided test of Mann and Kendall: the values rise with p below 0.05. Ties count for neither side.
bool rises_by_rank(const std::deque<double>& values);

}  // namespace hone::doctor
