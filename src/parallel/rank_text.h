// How messages write ranks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "parallel/ranks.h"

namespace hone::parallel {

// "rank 3", "ranks 1 and 3", "ranks 1, 3 and 5", "ranks 1 to 7" from three in a row on.
std::string rank_list(const std::vector<int>& ranks);

// "rank 1 of 4"
inline std::string rank_where(const Ranks& ranks) {
  return "rank " + std::to_string(ranks.rank()) + " of " + std::to_string(ranks.size());
}

}  // namespace hone::parallel
