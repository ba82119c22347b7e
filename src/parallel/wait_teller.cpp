#include "parallel/wait_teller.h"

#include <utility>

namespace hone::parallel {

WaitTeller::WaitTeller(std::chrono::milliseconds interval, Tell tell)
    : interval_(interval), tell_(std::move(tell)) {
  if (tell_) thread_ = std::thread([this] { run(); });
}

WaitTeller::~WaitTeller() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// The thread is not woken: it looks again when the interval is over, which is soon enough.
void WaitTeller::begin(std::int64_t step, std::int64_t number, std::string_view what) {
  if (!tell_) return;
  const std::lock_guard lock(mutex_);
  wait_.step = step;
  wait_.number = number;
  wait_.what = what;
  since_ = Clock::now();
  next_ = since_ + interval_;
  waits_ = true;
}

void WaitTeller::end() {
  if (!tell_) return;
  const std::lock_guard lock(mutex_);
  waits_ = false;
}

void WaitTeller::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Clock::time_point now = Clock::now();
    if (waits_ && now >= next_) {
      Wait told = wait_;
      told.so_far = std::chrono::duration_cast<std::chrono::milliseconds>(now - since_);
      next_ = now + interval_;
      lock.unlock();
      tell_(told);
      lock.lock();
      continue;
    }
    changed_.wait_until(lock, waits_ ? next_ : now + interval_, [this] { return stop_; });
  }
}

}  // namespace hone::parallel
