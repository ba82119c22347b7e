// A thread that runs what it is given, one after another, and looks at the time in between. All state of the
// Tinker API belongs to one, so that none of it needs a lock: the network's thread and the compute thread
// only post.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace hone::serve {

using Steady = std::chrono::steady_clock;  // a machine's sleep does not count

class Mailbox {
 public:
  // `tick` runs about every `interval`. Letters that throw are bugs: the exception goes to `failed`.
  Mailbox(std::function<void()> tick, std::chrono::milliseconds interval,
          std::function<void(std::exception_ptr)> failed);
  ~Mailbox();  // what is waiting is dropped
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void post(std::function<void()> letter);  // from any thread

 private:
  void run();
  void guarded(const std::function<void()>& call);

  std::function<void()> tick_;
  const std::chrono::milliseconds interval_;
  std::function<void(std::exception_ptr)> failed_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> letters_;
  bool stops_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace hone::serve
