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

  std::int64_t steps_per_epoch_;      // 0: not known
  std::deque<double> usual_;          // the losses of the window that were no spikes, newest last
  std::vector<std::int64_t> spikes_;  // their steps, the newest kSpikesKept
};

}  // namespace hone::doctor
