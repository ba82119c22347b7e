#include "parallel/rank_text.h"

namespace hone::parallel {

std::string rank_list(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last >= i + 2) {
      runs.push_back(std::to_string(ranks[i]) + " to " + std::to_string(ranks[last]));
      i = last + 1;
    } else {
      runs.push_back(std::to_string(ranks[i++]));
    }
  }
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i > 0) out += i + 1 == runs.size() ? " and " : ", ";
    out += runs[i];
  }
  return out;
}

}  // namespace hone::parallel
