// Results of requests that are still being worked on. A client polls for each by its id; polls are held until
// the result is there, or kPollSeconds are over.
//
// A poll's answers: 200 with the result; 200 {"error", "category"} for a request that failed; 200 {"status":
// "complete_metadata"} for a large result, where the poll allows it; 408 {"type": "try_again"}; 410 for a
// result that is no longer kept; 404 for an id that this server never gave. Never 5xx, at which a client
// polls without a pause.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "serve/http.h"
#include "serve/task_thread.h"

namespace hone::serve {

struct FutureLimits {
  std::chrono::milliseconds poll{20000};          // a poll is held so long at most
  std::chrono::milliseconds keep_sample{600000};  // a sample's result, fetched or not
  std::chrono::milliseconds keep_fetched{
      60000};  // any result that was fetched: the answer may have been lost
  std::size_t sample_bytes = std::size_t{256} << 20;  // of samples' results together: the oldest go first
  std::size_t large = std::size_t{1} << 20;           // results of so many bytes are announced first
};

// Says what was wrong.
enum class Blame { kUser, kServer };

class Futures {
 public:
  explicit Futures(FutureLimits limits) : limits_(limits) {}

  // `owner`: the model or the sampling session; `bytes`: what the request holds until it is done. False: the
  // id exists.
  bool open(const std::string& id, const std::string& owner, bool is_sample, std::size_t bytes);
  bool knows(const std::string& id) const { return all_.contains(id); }
  bool is_pending(const std::string& id) const;
  std::size_t pending() const { return pending_; }
  std::size_t pending_bytes() const { return pending_bytes_; }

  // The result; one that comes a second time, or for an owner that is gone, is dropped.
  void finish(const std::string& id, const base::Json& result);
  void finish_protobuf(const std::string& id, std::string result);
  void fail(const std::string& id, const std::string& sentence, Blame blame);

  // `was_given`: the id is of an owner that is there and has given it.
  void poll(std::shared_ptr<Exchange> exchange, const std::string& id, bool allows_metadata, bool was_given,
            Steady::time_point now);
  // Of `owner`: what has finished after `cursor` results had, but not those in `known`; held as a poll is.
  void poll_owner(std::shared_ptr<Exchange> exchange, const std::string& owner, std::size_t cursor,
                  std::chrono::milliseconds wait, Steady::time_point now);

  void end_polls(Steady::time_point now);  // those that are held get their 408 at the next tick
  void drop_owner(const std::string& owner);
  void tick(Steady::time_point now);

 private:
  struct Waiting {
    std::shared_ptr<Exchange> exchange;
    bool allows_metadata = true;
    Steady::time_point until;
  };
  struct Future {
    std::string owner;
    bool is_sample = false, is_done = false, is_failed = false, was_fetched = false;
    std::size_t bytes = 0;
    HttpAnswer result;
    Steady::time_point done_at, fetched_at;
    std::vector<Waiting> polls;
  };
  struct OwnerPoll {
    std::shared_ptr<Exchange> exchange;
    std::size_t cursor = 0;
    Steady::time_point until;
  };
  struct Owner {
    std::vector<std::string> finished;  // ids, in order
    std::vector<OwnerPoll> polls;
  };
  void settle(const std::string& id, HttpAnswer result, bool is_failed);
  void give(Future& future, const Waiting& poll, Steady::time_point now);
  void give_owner(const Owner& owner, const OwnerPoll& poll) const;
  void forget(std::map<std::string, Future>::iterator it);
  void keep_within_bytes();

  const FutureLimits limits_;
  std::map<std::string, Future> all_;
  std::map<std::string, Owner> owners_;
  std::deque<std::string> samples_;  // finished, the oldest first
  std::size_t sample_bytes_ = 0, pending_ = 0, pending_bytes_ = 0;
};

HttpAnswer json_answer(const base::Json& value, int status = 200);
HttpAnswer detail(int status, const std::string& sentence);

}  // namespace hone::serve
