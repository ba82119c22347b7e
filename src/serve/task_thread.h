// A thread that runs what it is given, one after another: what takes longer than the network's thread has time and needs
// no tensor (large JSON, templates, tokens), and all that belongs to one thread so that it needs no lock (the state of the
// Tinker API: the network's thread and the compute thread only hand tasks over).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace hone::serve {

using Steady = std::chrono::steady_clock;  // a machine's sleep does not count

class TaskThread {
 public:
  // `failed` gets the exceptions of tasks, which are bugs; without it a task must not throw.
  explicit TaskThread(std::function<void(const std::exception_ptr&)> failed = {});
  // `tick` runs about every `interval` too, between tasks.
  TaskThread(std::function<void(const std::exception_ptr&)> failed, std::function<void()> tick,
             std::chrono::milliseconds interval);
  ~TaskThread();  // what waits is dropped; the task that runs is finished
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void run(std::function<void()> task);  // from any thread
  std::size_t waiting() const;

 private:
  void loop();
  std::function<void()> next_task();  // null: it is time for a tick, or for the end
  void guarded(const std::function<void()>& task);

  const std::function<void(const std::exception_ptr&)> failed_;
  const std::function<void()> tick_;
  const std::chrono::milliseconds interval_{};
  Steady::time_point next_tick_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stops_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace hone::serve
