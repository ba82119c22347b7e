// Which options make a run fail: delta debugging over the options in which a bad configuration differs from a
// good one (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", TSE 2002: their `dd`
// and its three outcomes).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace hone::doctor {

enum class Outcome {
  kPasses,
  kFails,
  kUnresolved,  // no result: invalid combination of options, or another failure
};

using OptionSet = std::vector<std::size_t>;  // numbers of options, ascending

enum class SearchEnd {
  kFound,
  kFlaky,      // found, but a repeated try had another result
  kAllPass,    // no failure even with all options
  kNoneFails,  // failure even without any option
};

struct Minimized {
  SearchEnd end = SearchEnd::kFound;
  OptionSet options;  // kFound and kFlaky: a set that failed although none of its tried subsets did
  int tries = 0;      // calls of `fails`
};

// The smallest set that it can find among options 0..count-1 that fails. One option costs about log2(count)
// tries: the shortest failing prefix is found by bisection, its last option is kept, and the search continues
// before it. ddmin reduces the result to a set from which no single option can be removed. That set and the
// empty set are tried a second time; other sets are tried once.
Minimized minimize(std::size_t count, const std::function<Outcome(const OptionSet&)>& fails);

}  // namespace hone::doctor
