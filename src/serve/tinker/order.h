// The order of a model's requests: they run by seq_id, whenever they come. One that comes early is held, one
// that has come before is known again, and a gap that stays is told to those that wait behind it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "serve/task_thread.h"

namespace hone::serve {

class RequestOrder {
 public:
  enum class Place {
    kTaken,     // it runs now, or is held until its turn
    kRepeated,  // it has come before
    kTooLate,   // the requests behind it were told that it is missing
  };
  // What would become of `seq`, without taking it.
  Place look(std::int64_t seq) const;
  bool is_next(std::int64_t seq) const { return seq == next_; }
  // Takes one that look() calls kTaken: `run` is called in its turn, which may be now, and after it those
  // that were held for it.
  void take(std::int64_t seq, std::function<void()> run, Steady::time_point now);

  struct Failed {
    std::int64_t seq = 0, missing = 0;
  };
  // Those that have waited for `missing` since before `since`; their `run` is dropped, and the order goes on
  // behind them.
  std::vector<Failed> give_up(Steady::time_point since);

  std::int64_t last_run() const { return next_ - 1; }
  std::size_t held() const { return held_.size(); }

 private:
  struct Held {
    std::function<void()> run;
    Steady::time_point came;
  };
  std::int64_t next_ = 1;
  std::map<std::int64_t, Held> held_;
  std::set<std::int64_t> missed_;
};

}  // namespace hone::serve
