#include "serve/background.h"

#include <utility>

namespace hone::serve {

Background::Background() : thread_([this] { loop(); }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

std::size_t Background::waiting() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size();
}

void Background::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || !tasks_.empty(); });
    if (stops_) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace hone::serve
