#include "rewards/failure_tracker.h"

namespace hone::rewards {

void FailureTracker::saw(std::size_t function, const Scores& scores) {
  Function& one = functions_[function];
  one.asked = true;
  if (!scores.broken) {
    one.scored = one.fared_better = true;
    one.requests = 0;
    return;
  }
  one.requests += 1;
  if (!one.error || one.requests == 1) one.error = scores.broken;
}

void FailureTracker::end_batch() {
  for (Function& one : functions_) {
    if (!one.asked) continue;
    one.batches = one.fared_better ? 0 : one.batches + 1;
    one.asked = one.fared_better = false;
    if (one.batches == 0) continue;
    const bool early = !one.scored && one.requests >= kMaxBrokenRequests;
    if (!early && one.batches < kMaxBrokenBatches) continue;
    base::ErrorText text = *one.error;
    if (one.requests > 1) {
      text.found += "; it has failed for every sample in " + std::to_string(one.requests) + " requests, " +
                    std::to_string(one.batches) +
                    (one.batches == 1 ? " generation batch" : " generation batches");
    }
    throw base::UserError(text);
  }
}

std::optional<base::ErrorText> all_failed(const std::string& where, const Scores& scores, std::size_t units) {
  if (units == 0 || scores.failures.size() < units) return std::nullopt;
  const std::string all = units > 1 ? ", and none of " + std::to_string(units) + " could be scored" : "";
  return base::ErrorText{
      .where = where,
      .expected = "a score",
      .found = "sample " + std::to_string(scores.failures.front().sample) + ": " +
               scores.failures.front().what + all,
      .cause = {},
      .fix = "`hone reward-test` calls it with known answers; raise reward_timeout if it is slow"};
}

}  // namespace hone::rewards
