#include "rewards/http/endpoint.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <thread>

#include "base/error.h"
#include "base/process/stop_request.h"
#include "base/stopwatch.h"
#include "rewards/reward.h"

namespace hone::rewards {

namespace {

using base::Clock;
using base::seconds_since;

constexpr double kFirstPause = 0.2, kLongestPause = 30;
constexpr std::chrono::milliseconds kStopGlance{50};  // between looks at a stop request

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, seconds < 10 ? "%.2g s" : "%.0f s", seconds);
  return text;
}

}  // namespace

double RetryState::limit(RetryLater::Kind kind) const {
  const RetryLimits& limits = endpoint_.limits_;
  switch (kind) {
    case RetryLater::Kind::kBusy:
      return limits.outage;
    case RetryLater::Kind::kAbsent:
      return endpoint_.has_answered() ? limits.outage : std::min(limits.absent, limits.outage);
    case RetryLater::Kind::kShaky:
      return alone_ ? -1 : limits.brief;
    case RetryLater::Kind::kSlow:
      return alone_ || tries_ > 1 ? -1 : std::numeric_limits<double>::infinity();
  }
  return -1;
}

double RetryState::pause() {
  // 2654435761: Knuth's multiplicative hash; neighbors in the counter lie far apart.
  const unsigned drawn = (endpoint_.pauses_++ * 2654435761U) >> 16U;
  const double jitter = 0.75 + 0.5 * static_cast<double>(drawn & 0xFFU) / 255;
  return std::min(kLongestPause, kFirstPause * std::exp2(std::min(tries_ - 1, 20))) * jitter;
}

bool RetryState::wait(const RetryLater& later) {
  if (tries_++ == 0) start_ = Clock::now();
  last_ = later.what;
  const double most = limit(later.kind), next = std::max(pause(), later.seconds);
  if (seconds_since(start_) + next > most) {
    if (later.kind == RetryLater::Kind::kShaky || later.kind == RetryLater::Kind::kSlow) return false;
    throw_unavailable(later, later.seconds > most ? ", and asks to wait " + seconds_text(later.seconds) : "");
  }
  sleep(next);
  return true;
}

void RetryState::sleep(double seconds) const {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (;;) {
    if (endpoint_.given_up_ || base::stop_request) {
      throw RewardUnavailable({.where = "reward " + word_,
                               .expected = "an answer",
                               .found = last_ + "; stopped while waiting for it",
                               .cause = base::stop_request ? "the run was asked to stop" : "the run ends",
                               .fix = "continue with resume_from_checkpoint: true"});
    }
    const auto left = end - Clock::now();
    if (left <= Clock::duration::zero()) return;
    std::this_thread::sleep_for(std::min<Clock::duration>(left, kStopGlance));
  }
}

void RetryState::throw_unavailable(const RetryLater& later, const std::string& why) const {
  const bool absent = later.kind == RetryLater::Kind::kAbsent;
  throw RewardUnavailable(
      {.where = "reward " + word_,
       .expected = "an answer",
       .found = story() + why,
       .cause = absent ? "the server is not running, or not at this address"
                       : "too many requests, or a server that is down",
       .fix = std::string(absent ? "start it, or correct the address"
                                 : "check the server, or send fewer requests") +
              (endpoint_.has_answered() ? "; continue with resume_from_checkpoint: true" : "")});
}

std::string RetryState::story() const {
  if (tries_ <= 1) return last_;
  return last_ + "; it was asked " + std::to_string(tries_) + " times in " +
         seconds_text(seconds_since(start_));
}

}  // namespace hone::rewards
