#include "parallel/ranks.h"

#include <algorithm>
#include <map>

#include "parallel/pack.h"
#include "parallel/rank_text.h"

namespace hone::parallel {

namespace {

using Values = std::map<std::string, std::string>;

Values unpack_values(std::string_view bytes) {
  Values out;
  while (!bytes.empty()) {
    std::string name = take_text(bytes, "parallel::require_same");
    out[std::move(name)] = take_text(bytes, "parallel::require_same");
  }
  return out;
}

// "max_length is 512 on rank 0, 1024 on ranks 1 and 3": one line for each name that differs.
std::string difference_of(const std::string& name, const std::vector<Values>& all) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto it = all[r].find(name);
    const std::string value = it == all[r].end() ? "missing" : it->second;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == value; });
    if (group == groups.end()) group = groups.insert(groups.end(), {value, {}});
    group->second.push_back(static_cast<int>(r));
  }
  if (groups.size() == 1) return {};
  std::string out = name + " is ";
  for (std::size_t g = 0; g < groups.size(); ++g) {
    out += (g == 0 ? "" : ", ") + groups[g].first + " on " + rank_list(groups[g].second);
  }
  return out;
}

}  // namespace

Part part_of(std::int64_t count, int rank, int ranks) {
  constexpr std::int64_t kAligned = 16;  // elements: a part begins at a cache line
  const std::int64_t each = ((count + ranks - 1) / ranks + kAligned - 1) / kAligned * kAligned;
  return {std::min(count, each * rank), std::min(count, each * (rank + 1))};
}

void require_same(Ranks& ranks, const std::vector<SameValue>& values, std::string_view what,
                  std::string_view cause, std::string_view fix) {
  std::string own;
  for (const SameValue& one : values) {
    append_text(own, one.name);
    append_text(own, one.value);
  }
  std::vector<Values> all;
  Values names;
  for (const std::string& said : ranks.gather(own, what)) {
    all.push_back(unpack_values(said));
    names.insert(all.back().begin(), all.back().end());
  }
  std::string found;
  std::vector<int> culprits;
  for (const auto& [name, any] : names) {
    const std::string difference = difference_of(name, all);
    if (difference.empty()) continue;
    found += (found.empty() ? "" : "\n          ") + difference;
  }
  if (found.empty()) return;
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] != all[0]) culprits.push_back(static_cast<int>(r));
  }
  throw RankFault(RankFault::Kind::kDiffers, culprits,
                  {.where = rank_where(ranks) + ", " + std::string(what),
                   .expected = "the same on every rank",
                   .found = found,
                   .cause = std::string(cause),
                   .fix = std::string(fix)});
}

}  // namespace hone::parallel
