// One thread for what takes longer than the network's thread has time, and needs no tensor: large JSON,
// templates, tokens. Tasks run in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace hone::serve {

class Background {
 public:
  Background();
  ~Background();  // what waits is dropped; the task that runs is finished
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Must not throw. From any thread.
  void run(std::function<void()> task);
  std::size_t waiting() const;

 private:
  void loop();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stops_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace hone::serve
