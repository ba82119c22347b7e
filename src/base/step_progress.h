// How far the program is within a step, or with work before the first (opening a run) or without any (merging), for a line that is
// shown while it takes long (report/terminal/step_ticker.h, report/long_work.h). A total of 0 is not known. Set with a few
// relaxed stores by whoever does the work, read by another thread. Strings are static.
#pragma once

#include <atomic>
#include <cstdint>

namespace hone::base {

struct StepProgress {
  std::atomic<const char*> part = nullptr;  // "sampling", "training", "evaluating"; null: nothing to tell
  std::atomic<const char*> unit = nullptr;  // "completions"
  std::atomic<std::int64_t> done = 0, total = 0;
};

inline StepProgress step_progress;

inline void begin_part(const char* part, const char* unit, std::int64_t total) {
  step_progress.part.store(nullptr, std::memory_order_relaxed);
  step_progress.unit.store(unit, std::memory_order_relaxed);
  step_progress.done.store(0, std::memory_order_relaxed);
  step_progress.total.store(total, std::memory_order_relaxed);
  step_progress.part.store(part, std::memory_order_relaxed);
}

inline void advance_part(std::int64_t by = 1) {
  step_progress.done.fetch_add(by, std::memory_order_relaxed);
}

inline void end_parts() {
  step_progress.part.store(nullptr, std::memory_order_relaxed);
}

}  // namespace hone::base
