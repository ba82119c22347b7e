// Says, once in a while, that a rank still waits for others: a collective that takes minutes is silent
// otherwise.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace hone::parallel {

class WaitTeller {
 public:
  struct Wait {
    std::int64_t step = 0, number = 0;  // of the collective
    std::string what;                   // its name
    std::chrono::milliseconds so_far{0};
  };
  using Tell = std::function<void(const Wait&)>;

  // Calls `tell`, in a thread of its own, every `interval` of a wait. Without `tell` it is no thread.
  WaitTeller(std::chrono::milliseconds interval, Tell tell);
  WaitTeller(const WaitTeller&) = delete;
  WaitTeller& operator=(const WaitTeller&) = delete;
  ~WaitTeller();

  void begin(std::int64_t step, std::int64_t number, std::string_view what);
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void run();

  std::chrono::milliseconds interval_;
  Tell tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Wait wait_;
  Clock::time_point since_, next_;
  bool waits_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace hone::parallel
