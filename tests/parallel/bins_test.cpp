#include "parallel/bins.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace hone::parallel::bins_test {

TEST(Bins, PowersOfTwoUpToEightShareEightBins) {
  for (const int ranks : {1, 2, 4, 8}) {
    EXPECT_EQ(bins_for(ranks), 8);
    EXPECT_TRUE(bits_of_one_rank(ranks));
  }
  for (const int ranks : {3, 5, 6, 7, 12, 16, 256}) {
    EXPECT_EQ(bins_for(ranks), ranks);
    EXPECT_FALSE(bits_of_one_rank(ranks));
  }
}

TEST(Bins, RanksTileThem) {
  for (const int ranks : {1, 2, 3, 4, 5, 8, 16}) {
    int next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const BinRange range = bins_of(rank, ranks);
      EXPECT_EQ(range.begin, next);
      next = range.end;
    }
    EXPECT_EQ(next, bins_for(ranks));
  }
}

TEST(Bins, ItemsDoNotMoveWithTheNumberOfRanks) {
  std::mt19937 random(7);
  std::vector<std::int64_t> costs(37);
  for (auto& cost : costs) cost = random() % 500;
  const BinnedWork one(costs, 1);
  for (const int ranks : {2, 4, 8}) {
    const BinnedWork several(costs, ranks);
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const std::int64_t item : several.items_of_rank(rank)) {
        EXPECT_EQ(several.bin_of(item), one.bin_of(item));
        EXPECT_EQ(several.rank_of(item), rank);
        all.push_back(item);
      }
    }
    EXPECT_EQ(all, one.items_of_rank(0)) << "in order of bin, then of item";
    EXPECT_LT(several.imbalance(), 1.1);
  }
}

TEST(Bins, FewItemsGoToDifferentRanks) {
  const std::vector<std::int64_t> costs = {10, 10, 10, 10};
  for (const int ranks : {2, 4}) {
    const BinnedWork work(costs, ranks);
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(work.items_of_rank(rank).size(), 4U / static_cast<unsigned>(ranks));
  }
  const BinnedWork two(std::vector<std::int64_t>{5, 5}, 2);
  EXPECT_NE(two.rank_of(0), two.rank_of(1));
}

TEST(Bins, ItemsWithoutCostAreSharedToo) {
  const BinnedWork work(std::vector<std::int64_t>(6, 0), 3);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(work.items_of_rank(rank).size(), 2U);
  EXPECT_EQ(work.imbalance(), 1);
}

TEST(Bins, OneExpensiveItemHasItsRankForItself) {
  const BinnedWork work(std::vector<std::int64_t>{1, 1, 100, 1, 1}, 2);
  EXPECT_EQ(work.items_of_rank(work.rank_of(2)).size(), 1U);
}

}  // namespace hone::parallel::bins_test
