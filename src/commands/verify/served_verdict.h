// From distances of hypotheses to what is served.
#pragma once

#include <string>
#include <vector>

#include "commands/verify/hypotheses.h"

namespace hone::commands {

struct ServedVerdict {
  std::string code;  // of the hypothesis; "none", "not_told_apart"
  std::string what, cause, fix;
  bool is_applied = false;
};

// The nearest hypothesis, where it is within `limit` and every other one is at least 3 times as far and beyond 0.002. Otherwise
// none of them, or those that cannot be told apart. `changes`: the distance between the adapter's and the base's
// answers; below 10 times the nearest distance the adapter is too weak to be seen. NaN is never near.
ServedVerdict verdict_of(const std::vector<Measured>& measured, double limit, double changes);

}  // namespace hone::commands
