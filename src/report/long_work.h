// Says how far work is that is no run's step: merging, exporting, converting. In a terminal on one line, from 1.5 s on, with the time
// left; in a log a line every 30 s. What it is and how far is in base/step_progress.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>

#include "report/terminal/step_ticker.h"
#include "report/terminal/terminal.h"

namespace hone::report {

class LongWork {
 public:
  // Nothing else writes to `out` while it lives. `out` outlives it.
  LongWork(std::ostream& out, Terminal terminal);
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;
  ~LongWork();  // takes its line away

 private:
  using Clock = std::chrono::steady_clock;
  void tick();

  std::ostream& out_;
  Terminal terminal_;
  Clock::time_point begun_, part_begun_, last_line_;
  const char* part_ = nullptr;
  std::int64_t done_ = 0;
  bool shown_ = false;
  StepTicker ticker_;  // last: its thread ends first
};

// "writing 12 of 290 tensors  5 s, about 2 min left"; empty where base/step_progress.h has no part. `in_part`: seconds since the part
// began, `seconds` since all of it.
std::string work_progress_text(double seconds, double in_part);

}  // namespace hone::report
