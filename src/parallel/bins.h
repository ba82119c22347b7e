// Work bins: which rank computes which item of a step, and in which order results are added.
//
// The items of an optimizer step (micro-batches, prompts) go into a fixed number of bins, whatever the number of
// ranks. A rank computes a contiguous run of bins. What a step adds up is added in order of item within a bin, and
// by one binary tree across bins (parallel/tree_sum.h). So a sum depends on the bins only: 1, 2, 4 and 8 ranks get
// the same bits.
//
//   ranks            bins    bits
//   1, 2, 4, 8       8       those of one rank
//   16, 32, ...      ranks   those of every run with as many ranks
//   3, 5, 6, 7, ...  ranks   those of every run with as many ranks
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hone::parallel {

constexpr int kBins = 8;

// How many bins a run of `ranks` ranks has; ranks >= 1.
int bins_for(int ranks);

// Returns whether a run of `ranks` ranks has the bits of a run of one.
bool bits_of_one_rank(int ranks);

// Bins [begin, end).
struct BinRange {
  int begin = 0, end = 0;
};
// Returns the bins of a rank; the bins of all ranks tile [0, bins_for(ranks)) in order of rank, equally many
// each.
BinRange bins_of(int rank, int ranks);

// The items of one step in bins. Depends on costs and the number of bins only, so that every rank makes the same
// without a word between them.
class BinnedWork {
 public:
  // Item i costs costs[i] (tokens; >= 0). The most expensive item goes first, ties in order of item, each down the
  // tree of bins to the side with the lower cost (left when equal). So the halves, the quarters and the bins are
  // balanced at once, and 2 items go to 2 ranks at every number of ranks. ranks: bins_for(ranks) bins.
  BinnedWork(std::span<const std::int64_t> costs, int ranks);

  int ranks() const { return ranks_; }
  std::int64_t count() const { return static_cast<std::int64_t>(bin_of_.size()); }
  int bins() const { return static_cast<int>(items_.size()); }
  int bin_of(std::int64_t item) const { return bin_of_.at(static_cast<std::size_t>(item)); }
  int rank_of(std::int64_t item) const;
  // Ascending; empty for a bin without work.
  std::span<const std::int64_t> items_of(int bin) const { return items_.at(static_cast<std::size_t>(bin)); }
  // Returns the items in the bins of a rank, in order of bin.
  std::vector<std::int64_t> items_of_rank(int rank) const;
  // The cost of the most expensive rank divided by the mean of all; 1: perfectly balanced. 1 without any cost.
  double imbalance() const;

 private:
  int ranks_;
  std::vector<int> bin_of_;
  std::vector<std::vector<std::int64_t>> items_;
  std::vector<std::int64_t> rank_cost_;
};

}  // namespace hone::parallel
