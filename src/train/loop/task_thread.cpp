#include "train/loop/task_thread.h"

#include <utility>

namespace hone::train {

TaskThread::TaskThread() : thread_([this] { run(); }) {}

TaskThread::~TaskThread() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

TaskThread::Ticket TaskThread::post(std::function<void()> task) {
  const std::scoped_lock lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
  return ++posted_;
}

void TaskThread::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  if (done_ >= ticket) return;
  awaited_ = ticket;
  changed_.notify_all();
  changed_.wait(lock, [&] { return done_ >= ticket || error_ != nullptr; });
  if (done_ < ticket) std::rethrow_exception(error_);
}

bool TaskThread::until_owner_waits() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return awaited_ > 0 || ends_; });
  return awaited_ > 0;
}

void TaskThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
    if (ends_) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error != nullptr) {
      error_ = error;
      changed_.notify_all();
      return;
    }
    done_ += 1;
    if (done_ >= awaited_)
      awaited_ = 0;  // here and not in wait(): the next task may ask before the owner is awake
    changed_.notify_all();
  }
}

}  // namespace hone::train
