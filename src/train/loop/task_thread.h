// Tasks in order, on a thread of their own, beside the thread that posts them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace hone::train {

class TaskThread {
 public:
  using Ticket = std::uint64_t;  // 0: of no task

  TaskThread();
  // Waits for the task that runs; those after it are left out.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // By one thread, the owner.
  Ticket post(std::function<void()> task);
  // Until that task and those before it are done. Throws the first error of a task, after which none runs.
  void wait(Ticket ticket);

  // In a task: returns when the owner is in wait(), where it stays until this task ends. False: the owner wants to end.
  bool until_owner_waits();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  Ticket posted_ = 0, done_ = 0, awaited_ = 0;  // awaited_: by the owner, which is in wait(); 0: it is not
  std::exception_ptr error_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace hone::train
