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
  kUnresolved,  // nothing can be said: the options do not go together, or it failed in another way
};

using OptionSet = std::vector<std::size_t>;  // numbers of options, ascending

enum class SearchEnd {
  kFound,
  kFlaky,      // found, but a repeated try said something else
  kAllPass,    // with all options there is no failure
  kNoneFails,  // without any option there is one already
};

struct Minimized {
  SearchEnd end = SearchEnd::kFound;
  OptionSet options;  // kFound and kFlaky: a set that failed, and none of whose tried parts did
  int tries = 0;      // calls of `fails`
};

// The smallest set it can find among options 0..count-1 that fails. One option costs about log2(count) tries:
// the shortest failing prefix is found by halving, its last option is kept, and the search goes on before it.
// What is left is reduced by ddmin to a set from which no single option can be left out, and tried once more,
// as is the empty set. A set is tried once otherwise.
Minimized minimize(std::size_t count, const std::function<Outcome(const OptionSet&)>& fails);

}  // namespace hone::doctor
