#include "serve/task_thread.h"

#include <utility>

namespace hone::serve {

TaskThread::TaskThread(std::function<void(const std::exception_ptr&)> failed)
    : failed_(std::move(failed)), thread_([this] { loop(); }) {}

TaskThread::TaskThread(std::function<void(const std::exception_ptr&)> failed, std::function<void()> tick,
                       std::chrono::milliseconds interval)
    : failed_(std::move(failed)),
      tick_(std::move(tick)),
      interval_(interval),
      next_tick_(Steady::now() + interval),
      thread_([this] { loop(); }) {}

TaskThread::~TaskThread() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TaskThread::run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stops_) return;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

std::size_t TaskThread::waiting() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size();
}

void TaskThread::guarded(const std::function<void()>& task) {
  try {
    task();
  } catch (...) {
    if (!failed_) throw;
    failed_(std::current_exception());
  }
}

std::function<void()> TaskThread::next_task() {
  std::unique_lock lock(mutex_);
  const auto wakes = [this] { return stops_ || !tasks_.empty(); };
  if (tick_)
    changed_.wait_until(lock, next_tick_, wakes);
  else
    changed_.wait(lock, wakes);
  if (stops_ || tasks_.empty()) return nullptr;
  std::function<void()> out = std::move(tasks_.front());
  tasks_.pop_front();
  return out;
}

void TaskThread::loop() {
  for (;;) {
    if (const std::function<void()> task = next_task()) guarded(task);
    {
      const std::lock_guard lock(mutex_);
      if (stops_) return;
    }
    if (const auto now = Steady::now(); tick_ && now >= next_tick_) {
      guarded(tick_);
      next_tick_ = now + interval_;
    }
  }
}

}  // namespace hone::serve
