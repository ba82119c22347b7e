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

// The nearest hypothesis, where it is within `limit` and every other one is told apart from it: 3 times as far and beyond
// 0.002, or what the server adds to the nearest does not lie along the way to the other. Otherwise none of them, or those
// that cannot be told apart. Where the adapter changes the base's answers by less than 10 times the nearest distance, as
// a weak one does in a server that rounds to bf16, the way alone decides; below 2 times it cannot be seen. NaN is never
// near.
ServedVerdict verdict_of(const std::vector<ServedScores>& served, const std::vector<Measured>& measured,
                         double limit);

}  // namespace hone::commands
