#include "report/terminal/step_ticker.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/step_progress.h"
#include "base/where.h"
#include "report/terminal/terminal.h"

namespace hone::report {

namespace {

constexpr auto kBetweenTicks = std::chrono::milliseconds(500);

}  // namespace

std::string step_progress_text(std::int64_t total_steps, double seconds) {
  constexpr auto kNow = std::memory_order_relaxed;
  const std::int64_t step = base::where.step.load(kNow);
  std::string out = step == 0 ? "before step 1" : fmt::format("step {}/{}", step, total_steps);
  const char* const part = base::step_progress.part.load(kNow);
  const char* const unit = base::step_progress.unit.load(kNow);
  const std::int64_t total = base::step_progress.total.load(kNow);
  if (part != nullptr) out += fmt::format("  {}", part);
  if (part != nullptr && unit != nullptr && total > 0) {
    std::string_view units = unit;
    if (total == 1)
      units.remove_suffix(units.ends_with("ches") || units.ends_with("sses") ? 2 : 1);  // "of 1 pass"
    out += fmt::format(" {} of {} {}", std::min(base::step_progress.done.load(kNow), total), total, units);
  }
  const std::int64_t done = base::step_progress.done.load(kNow);
  if (part != nullptr && unit != nullptr && *unit != '\0' && total == 0 && done > 0)
    out += fmt::format(" {} {}", human_count(done), unit);
  return out + "  " + human_seconds(seconds);
}

StepTicker::StepTicker(std::function<void()> tick)
    : tick_(std::move(tick)), thread_([this] {
        std::unique_lock lock(mutex_);
        while (!ended_.wait_for(lock, kBetweenTicks, [this] { return end_; })) {
          lock.unlock();
          tick_();
          lock.lock();
        }
      }) {}

void StepTicker::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

}  // namespace hone::report
