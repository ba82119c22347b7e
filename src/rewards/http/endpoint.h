// Retries of a call to an endpoint that failed: repeated after a pause, or given up.
//
//   busy     status 408, 425, 429, 502, 503, 504; an endpoint that has answered before and now says 401, 403,
//            404, ...: asked again for `outage` seconds, at the time of Retry-After where it gives one
//   absent   nobody listens, no such host: the same, but an endpoint that has never answered only `absent`
//            seconds
//   shaky    another 5xx, a connection that breaks, a body that is no JSON: it may be this request that it
//            cannot stand. Asked again for `brief` seconds, then for each sample alone, once; what fails
//            again is a Failure
//   slow     no answer within the time-out: asked once again, then for each sample alone
//
// Beyond `outage` the run ends (RewardUnavailable), after saving, so that it never trains on batches without
// scores. Pauses are 0.2 s, twice that, ..., 30 s at most, times 0.75 to 1.25 drawn from a counter: scores do
// not depend on them.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "rewards/python/worker_frames.h"

namespace hone::rewards {

struct RetryLimits {
  double outage = 300, absent = 10, brief = 12;  // seconds
};

// Shared by all calls of a function.
class Endpoint {
 public:
  explicit Endpoint(RetryLimits limits = {}) : limits_(limits) {}

  void answered() { has_answered_ = true; }
  bool has_answered() const { return has_answered_; }
  // Pauses under way, and those that would follow, throw RewardUnavailable at once.
  void give_up() { given_up_ = true; }
  void reset() { given_up_ = false; }

 private:
  friend class RetryState;
  RetryLimits limits_;
  std::atomic<bool> has_answered_ = false, given_up_ = false;
  std::atomic<unsigned> pauses_ = 0;
};

// Holds the state of one call's retries.
class RetryState {
 public:
  // `alone`: of one sample after its batch has failed.
  RetryState(Endpoint& endpoint, std::string word, bool alone)
      : endpoint_(endpoint), word_(std::move(word)), alone_(alone) {}

  // Pauses; false: not worth another try. RewardUnavailable: beyond the outage's limit, stopped
  // (base/process/stop_request.h), given up.
  bool wait(const RetryLater& later);
  // "503 ...; it was asked 3 times in 12 s"; empty before the first wait.
  std::string story() const;

 private:
  double limit(RetryLater::Kind kind) const;
  double pause();
  void sleep(double seconds) const;
  [[noreturn]] void throw_unavailable(const RetryLater& later, const std::string& why) const;

  Endpoint& endpoint_;
  std::string word_;
  bool alone_;
  int tries_ = 0;
  std::string last_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace hone::rewards
