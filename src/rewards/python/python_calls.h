// One Reward::score of a Python function: the calls that it takes, and what becomes of one that raises, hangs
// or dies. The rules are in python_reward.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rewards/http/endpoint.h"
#include "rewards/python/worker_pool.h"
#include "rewards/reward.h"

namespace hone::rewards {

struct CalledFunction {
  std::size_t index = 0;  // in the pool
  std::string word;       // as the user calls it
  std::string file;       // of its code: LoadedFunction::file
  double timeout = 60;
  Endpoint* endpoint = nullptr;  // whose answers are waited for; null: none
};

class PythonCalls {
 public:
  // `lease` and `request` outlive it.
  PythonCalls(WorkerPool::Lease& lease, CalledFunction function, const Request& request)
      : lease_(lease), function_(std::move(function)), request_(request) {}

  Scores score();  // once

 private:
  struct Answer {
    CallResult::Kind kind = CallResult::Kind::kDied;
    ScoreReply reply;  // kAnswered
    // kLate: " (reward.py:12 in score)" or ""; kDied: "the worker was killed by ...: last words"
    std::string what;
    double seconds = 0;
  };

  std::string message(std::size_t begin, std::size_t end, double seconds) const;  // of samples begin..end
  Answer call_once(std::size_t begin, std::size_t end, double seconds);
  // Again while an endpoint asks for it; a reply with `later`: no more.
  Answer call(std::size_t begin, std::size_t end, double seconds, bool alone);
  bool try_batch();         // true: scored, as far as it can be
  void try_individually();  // every sample by itself, `timeout` for all
  void try_sample(std::size_t sample, double seconds);
  void take(ScoreReply& reply, std::size_t begin);
  void raised(std::size_t sample, const PythonException& what);
  void fail(std::size_t sample, std::string what);
  void average_metrics();
  [[noreturn]] void throw_fault(const base::ErrorText& fault) const;
  std::optional<base::ErrorText> broken() const;  // Scores::broken

  WorkerPool::Lease& lease_;
  CalledFunction function_;
  const Request& request_;
  Scores scores_;
  // why samples are called one by one, for their messages: "no answer within 30 s", ""
  std::string batch_was_;
  std::size_t raised_ = 0;
  std::size_t first_raised_ = 0;  // sample
  PythonException first_;
  int deaths_ = 0;
  double spent_ = 0;  // seconds of the function's own time in try_individually
};

}  // namespace hone::rewards
