// Says how far a step is while it takes long: in a terminal from 2 seconds on, on a line that is written again every half second; in
// a log every 30 seconds, a line each.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace hone::report {

// "step 13/80  sampling 12 of 64 completions  5 s" of base/where.h and base/step_progress.h; `seconds` since the last event.
std::string step_progress_text(std::int64_t total_steps, double seconds);

// A thread that calls `tick` every half second until it is destroyed.
class StepTicker {
 public:
  explicit StepTicker(std::function<void()> tick);
  StepTicker(const StepTicker&) = delete;
  StepTicker& operator=(const StepTicker&) = delete;
  ~StepTicker() { end(); }
  void end();  // returns when no tick runs any more

 private:
  std::function<void()> tick_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace hone::report
