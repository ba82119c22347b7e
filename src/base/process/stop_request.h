// Whether a signal has asked the run to stop, and until when the step that is being made may go on: for code that works or waits for long,
// such as a layer of a pass or a reward whose endpoint is down.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>

namespace hone::base {

inline std::atomic<bool> stop_request = false;  // set by a signal handler, never reset
// Nanoseconds of the steady clock after which the step is cut short; 0: not asked to stop, or no limit.
inline std::atomic<std::int64_t> stop_deadline = 0;

// The step was cut short: what came before it is whole. Thrown in a CutScope only.
class StopCut : public std::exception {
 public:
  const char* what() const noexcept override { return "the run was asked to stop"; }
};

// While one lives, on any thread, work may be cut short: whoever opens it catches StopCut and loses no finished step.
class CutScope {
 public:
  CutScope() { ++open; }
  CutScope(const CutScope&) = delete;
  CutScope& operator=(const CutScope&) = delete;
  ~CutScope() { --open; }
  static inline std::atomic<int> open = 0;
};

inline std::int64_t steady_nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// One relaxed load where nobody has asked.
inline bool stop_overdue() {
  const std::int64_t deadline = stop_deadline.load(std::memory_order_relaxed);
  return deadline != 0 && CutScope::open.load(std::memory_order_relaxed) > 0 &&
         steady_nanoseconds() >= deadline;
}
inline void cut_if_overdue() {
  if (stop_overdue()) throw StopCut();
}

}  // namespace hone::base
