#include "parallel/bins.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <string>

#include "base/error.h"

namespace hone::parallel {

namespace {

bool power_of_two(int ranks) {
  return std::has_single_bit(static_cast<unsigned>(ranks));
}

// Costs of the subtrees of bins, as a heap: node 1 is the root, the children of n are 2n and 2n + 1.
int descend(std::vector<std::int64_t>& subtree, int bins, std::int64_t cost) {
  std::size_t node = 1;
  subtree[node] += cost;
  while (node < static_cast<std::size_t>(bins)) {
    const std::size_t left = 2 * node;
    node = subtree[left + 1] < subtree[left] ? left + 1 : left;
    subtree[node] += cost;
  }
  return static_cast<int>(node) - bins;
}

}  // namespace

int bins_for(int ranks) {
  base::require(ranks >= 1, "parallel::bins_for", "a rank at least");
  return power_of_two(ranks) ? std::max(ranks, kBins) : ranks;
}

bool bits_of_one_rank(int ranks) {
  return power_of_two(ranks) && ranks <= kBins;
}

BinRange bins_of(int rank, int ranks) {
  base::require(rank >= 0 && rank < ranks, "parallel::bins_of", "a rank below the number of ranks");
  const int each = bins_for(ranks) / ranks;
  return {rank * each, (rank + 1) * each};
}

BinnedWork::BinnedWork(std::span<const std::int64_t> costs, int ranks)
    : ranks_(ranks),
      bin_of_(costs.size()),
      items_(static_cast<std::size_t>(bins_for(ranks))),
      rank_cost_(static_cast<std::size_t>(ranks)) {
  std::vector<std::int64_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  const auto cost_of = [&](std::int64_t item) { return costs[static_cast<std::size_t>(item)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return cost_of(a) > cost_of(b); });
  std::vector<std::int64_t> subtree(2 * items_.size());
  for (const std::int64_t item : order) {
    // An item is work even where its cost is unknown: without the 1, items of cost 0 would all go to one bin.
    const std::int64_t cost = std::max<std::int64_t>(cost_of(item), 0) + 1;
    int bin = 0;
    if (power_of_two(bins())) {
      bin = descend(subtree, bins(), cost);
    } else {
      const auto lowest = std::min_element(subtree.begin(), subtree.begin() + bins());
      *lowest += cost;
      bin = static_cast<int>(lowest - subtree.begin());
    }
    bin_of_[static_cast<std::size_t>(item)] = bin;
  }
  for (std::int64_t item = 0; item < count(); ++item) {
    items_[static_cast<std::size_t>(bin_of(item))].push_back(item);
    rank_cost_[static_cast<std::size_t>(rank_of(item))] += std::max<std::int64_t>(cost_of(item), 0);
  }
}

int BinnedWork::rank_of(std::int64_t item) const {
  return bin_of(item) / (bins() / ranks_);
}

std::vector<std::int64_t> BinnedWork::items_of_rank(int rank) const {
  std::vector<std::int64_t> out;
  const BinRange range = bins_of(rank, ranks_);
  for (int bin = range.begin; bin < range.end; ++bin) {
    const auto items = items_of(bin);
    out.insert(out.end(), items.begin(), items.end());
  }
  return out;
}

double BinnedWork::imbalance() const {
  const std::int64_t all = std::accumulate(rank_cost_.begin(), rank_cost_.end(), std::int64_t{0});
  if (all == 0) return 1;
  const std::int64_t most = *std::max_element(rank_cost_.begin(), rank_cost_.end());
  return static_cast<double>(most) * static_cast<double>(ranks_) / static_cast<double>(all);
}

}  // namespace hone::parallel
