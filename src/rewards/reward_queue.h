// Rewards that run during generation: requests are scored by threads in the background, every function on
// every request, and collected when the last completion is there.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "rewards/failure_tracker.h"
#include "rewards/reward.h"

namespace hone::rewards {

// Which functions a request is for.
enum class Callees {
  kAll,
  kOfGroups,   // those that score a group by itself
  kOfBatches,  // those with Reward::takes_batch()
};

class RewardQueue {
 public:
  // As many threads as the rewards can use calls at once, at least one; the rewards must outlive it.
  explicit RewardQueue(const std::vector<std::unique_ptr<Reward>>& rewards);
  ~RewardQueue();  // drops results that were not collected; waits for running calls
  RewardQueue(const RewardQueue&) = delete;
  RewardQueue& operator=(const RewardQueue&) = delete;

  // Rethrows the error of an earlier request, if there was one: the run ends without more calls.
  void submit(Request request, Callees callees = Callees::kAll);
  bool has(Callees callees) const;  // whether such a request calls anything
  // Scores of the submitted requests in order, [request][function], without values where the function was not called;
  // waits for them: a generation batch. The
  // UserError of a function that has scored before is a request that it failed on. Rethrows the first other
  // error after the calls under way have ended; UserError for a function that fails on everything
  // (failure_tracker.h). The queue is then empty. StopCut when the step is to be cut short (base/process/stop_request.h).
  std::vector<std::vector<Scores>> collect();

 private:
  struct Call {
    std::size_t request = 0, function = 0;
  };
  bool calls(std::size_t function, Callees callees) const;
  void work();
  void take(const Call& call, Scores scores, const std::exception_ptr& error);
  void give_up();

  const std::vector<std::unique_ptr<Reward>>& rewards_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Call> waiting_;
  std::deque<Request> requests_;  // pointers into it stay while others are appended
  std::vector<std::vector<Scores>> scores_;
  std::vector<int> busy_;  // calls under way of each function
  FailureTracker broken_;
  std::size_t running_ = 0;
  std::exception_ptr error_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hone::rewards
