#include "commands/verify/served_verdict.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "doctor/number_format.h"

namespace hone::commands {

namespace {

constexpr double kTimesAsFar = 3, kFloor = 0.002, kTimesNoise = 10;
// These decide where the nearest distance is large beside what the adapter changes.
constexpr double kLeastTimesNoise = 2, kShare = 0.25, kShareError = 0.05;

double comparable(const Measured& one) {
  return std::isfinite(one.distance) ? one.distance : HUGE_VAL;
}

ServedVerdict none_of(const Measured& nearest, double limit) {
  return {
      .code = "none",
      .what = "none of these: the nearest is " + doctor::short_number(nearest.distance) +
              " away, and rounding explains " + doctor::short_number(limit),
      .cause =
          "another base, another adapter or another version of it is served, or the weights have few bits",
      .fix = "name a base that may be served with --other_base; for weights of 4 bits write --limit 0.3",
      .is_applied = false};
}

ServedVerdict too_weak(double changes, double best) {
  return {.code = "not_told_apart",
          .what = "it cannot be told whether the adapter is applied: it changes log-probabilities by " +
                  doctor::short_number(changes) + ", and the server differs by " + doctor::short_number(best),
          .cause =
              "the adapter has learned next to nothing (CKPT-01), these prompts do not ask for what it "
              "learned, or the server rounds much",
          .fix = "give prompts of its training set with --prompts FILE.jsonl, or ask more with --count",
          .is_applied = false};
}

const Measured* named(const std::vector<Measured>& measured, std::string_view code) {
  const auto found = std::find_if(measured.begin(), measured.end(),
                                  [&](const Measured& one) { return one.hypothesis.code == code; });
  return found == measured.end() ? nullptr : &*found;
}

// The distance between the answers with the adapter and those of the base.
double changes_of(const std::vector<ServedScores>& served, const std::vector<Measured>& measured) {
  const Measured *applied = named(measured, kApplied), *base = named(measured, kBaseOnly);
  return applied == nullptr || base == nullptr ? 0 : distance(served, applied->own, base->own);
}

// A scale of 0.85, or an adapter without some of its layers, looks like rounding as far as this.
std::string may_miss(const std::vector<ServedScores>& served, const std::vector<Measured>& measured) {
  const Along found = along(served, named(measured, kApplied)->own, named(measured, kBaseOnly)->own);
  const double most = std::abs(found.share) + 2 * found.error;
  return ", as far as the server's rounding shows: up to " + doctor::short_number(std::ceil(100 * most)) +
         " % of what it changes may be missing";
}

bool is_off_the_way(const std::vector<ServedScores>& served, const Measured& nearest, const Measured& other) {
  const Along found = along(served, nearest.own, other.own);
  return std::abs(found.share) <= kShare && found.error <= kShareError;
}

}  // namespace

ServedVerdict verdict_of(const std::vector<ServedScores>& served, const std::vector<Measured>& measured,
                         double limit) {
  base::require(!measured.empty(), "commands::verdict_of", "a hypothesis");
  const auto nearest = std::min_element(measured.begin(), measured.end(), [](const auto& a, const auto& b) {
    return comparable(a) < comparable(b);
  });
  const double best = comparable(*nearest);
  if (!(best <= limit)) return none_of(*nearest, limit);
  const double changes = changes_of(served, measured);
  if (!(changes >= kLeastTimesNoise * best && changes > kFloor)) return too_weak(changes, best);
  const bool is_weak = changes < kTimesNoise * best;
  std::string near;
  bool hides_change = false;
  for (const Measured& one : measured) {
    const bool far = !is_weak && comparable(one) >= std::max(kTimesAsFar * best, kFloor);
    if (&one != &*nearest && std::isfinite(one.distance) && !far && !is_off_the_way(served, *nearest, one)) {
      near += ", " + one.hypothesis.code;
      hides_change = hides_change || one.hypothesis.code == kApplied || one.hypothesis.code == kBaseOnly;
    }
  }
  if (hides_change && is_weak) return too_weak(changes, best);
  if (!near.empty()) {
    return {.code = "not_told_apart",
            .what = "these cannot be told apart: " + nearest->hypothesis.code + near,
            .cause = "their answers to these prompts are nearly the same",
            .fix = "ask more with --count, or give prompts of its training set with --prompts FILE.jsonl",
            .is_applied = false};
  }
  const Hypothesis& found = nearest->hypothesis;
  return {.code = found.code,
          .what = found.words + (is_weak && found.code == kApplied ? may_miss(served, measured) : ""),
          .cause = found.cause,
          .fix = found.fix,
          .is_applied = found.code == kApplied};
}

}  // namespace hone::commands
