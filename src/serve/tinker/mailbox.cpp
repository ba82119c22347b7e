#include "serve/tinker/mailbox.h"

#include <utility>

namespace hone::serve {

Mailbox::Mailbox(std::function<void()> tick, std::chrono::milliseconds interval,
                 std::function<void(std::exception_ptr)> failed)
    : tick_(std::move(tick)), interval_(interval), failed_(std::move(failed)), thread_([this] { run(); }) {}

Mailbox::~Mailbox() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  arrived_.notify_all();
  thread_.join();
}

void Mailbox::post(std::function<void()> letter) {
  {
    const std::lock_guard lock(mutex_);
    if (stops_) return;
    letters_.push_back(std::move(letter));
  }
  arrived_.notify_one();
}

void Mailbox::guarded(const std::function<void()>& call) {
  try {
    call();
  } catch (...) {
    failed_(std::current_exception());
  }
}

void Mailbox::run() {
  auto next_tick = Steady::now() + interval_;
  for (;;) {
    std::function<void()> letter;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait_until(lock, next_tick, [this] { return stops_ || !letters_.empty(); });
      if (stops_) return;
      if (!letters_.empty()) {
        letter = std::move(letters_.front());
        letters_.pop_front();
      }
    }
    if (letter) guarded(letter);
    if (const auto now = Steady::now(); now >= next_tick) {
      guarded(tick_);
      next_tick = now + interval_;
    }
  }
}

}  // namespace hone::serve
