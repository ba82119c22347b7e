#include "serve/tinker/order.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace hone::serve {

RequestOrder::Place RequestOrder::look(std::int64_t seq) const {
  if (missed_.contains(seq)) return Place::kTooLate;
  return seq < next_ || held_.contains(seq) ? Place::kRepeated : Place::kTaken;
}

void RequestOrder::take(std::int64_t seq, std::function<void()> run, Steady::time_point now) {
  base::require(look(seq) == Place::kTaken, "serve::RequestOrder", "a request that has not come before");
  held_.emplace(seq, Held{std::move(run), now});
  while (!held_.empty() && held_.begin()->first == next_) {
    const auto turn = held_.extract(held_.begin());
    next_ += 1;
    turn.mapped().run();
  }
}

std::vector<RequestOrder::Failed> RequestOrder::give_up(Steady::time_point since) {
  std::vector<Failed> out;
  const bool waits_long =
      std::any_of(held_.begin(), held_.end(), [&](const auto& one) { return one.second.came < since; });
  if (!waits_long) return out;
  const std::int64_t missing = next_;
  for (const auto& [seq, held] : held_) {
    for (std::int64_t gone = next_; gone < seq && missed_.size() < 100000; ++gone) missed_.insert(gone);
    out.push_back({.seq = seq, .missing = missing});
    next_ = seq + 1;
  }
  held_.clear();
  return out;
}

}  // namespace hone::serve
