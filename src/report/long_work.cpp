#include "report/long_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/step_progress.h"
#include "report/terminal/text_width.h"

namespace hone::report {

namespace {

constexpr auto kShortWork = std::chrono::milliseconds(1500);
constexpr auto kBetweenLines = std::chrono::seconds(30);
constexpr double kLeastShare = 0.02;  // of the part: before, the time left is a guess

}  // namespace

std::string work_progress_text(double seconds, double in_part) {
  constexpr auto kNow = std::memory_order_relaxed;
  const char* const part = base::step_progress.part.load(kNow);
  if (part == nullptr) return "";
  const std::int64_t total = base::step_progress.total.load(kNow), done = base::step_progress.done.load(kNow);
  const char* const unit = base::step_progress.unit.load(kNow);
  std::string out = part;
  if (total > 0)
    out += fmt::format(" {} of {} {}", human_count(std::min(done, total)), human_count(total), unit);
  if (total == 0 && done > 0) out += fmt::format(" {} {}", human_count(done), unit);
  out += "  " + human_seconds(seconds);
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
  if (share >= kLeastShare && share < 1)
    out += fmt::format(", about {} left", human_seconds(in_part * (1 - share) / share));
  return out;
}

LongWork::LongWork(std::ostream& out, Terminal terminal)
    : out_(out),
      terminal_(terminal),
      begun_(Clock::now()),
      part_begun_(begun_),
      last_line_(begun_),
      ticker_([this] { tick(); }) {}

LongWork::~LongWork() {
  ticker_.end();
  base::end_parts();
  if (shown_) out_ << "\r\x1b[K" << std::flush;
}

void LongWork::tick() {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const auto now = Clock::now();
  const char* const part = base::step_progress.part.load(kRelaxed);
  const std::int64_t done = base::step_progress.done.load(kRelaxed);
  if (part != part_ || done < done_) part_begun_ = now;
  part_ = part;
  done_ = done;
  const bool is_due = terminal_.interactive ? now - begun_ >= kShortWork : now - last_line_ >= kBetweenLines;
  if (!is_due) return;
  const auto since = [now](Clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  const std::string text = work_progress_text(since(begun_), since(part_begun_));
  if (text.empty()) return;
  last_line_ = now;
  if (!terminal_.interactive) {
    out_ << text << '\n' << std::flush;
    return;
  }
  out_ << "\r\x1b[K" << (terminal_.columns > 1 ? fit_line(text, terminal_.columns - 1) : text) << std::flush;
  shown_ = true;
}

}  // namespace hone::report
