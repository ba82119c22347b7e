// NUM-13: the training loss jumps, and comes back. At the ends of epochs the order of the rows is the cause.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/json.h"
#include "doctor/watch/finding.h"

namespace hone::doctor {

class SpikeWatch {
 public:
  explicit SpikeWatch(std::int64_t steps_per_epoch = 0) : steps_per_epoch_(steps_per_epoch) {}

  Findings see(std::int64_t step, double loss);

  base::Json state() const;
  void restore(const base::Json& state);  // BadWatchState (watch_state.h)

 private:
  bool is_spike(double loss) const;
  bool at_border(std::int64_t step) const;
  Findings judge();

  std::int64_t steps_per_epoch_;      // 0: not known
  std::deque<double> usual_;          // the losses of the window that were no spikes, newest last
  std::vector<std::int64_t> spikes_;  // their steps, the newest kSpikesKept
  // These are of the spike that has not come back yet: its steps so far, its highest loss and its last step.
  std::int64_t above_ = 0;
  double highest_ = 0;
  std::int64_t last_ = 0;
};

}  // namespace hone::doctor
