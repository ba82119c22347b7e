#include "parallel/tree_sum.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/bins.h"
#include "parallel/thread_ranks.h"

namespace hone::parallel::tree_sum_test {

// Numbers of very different size, so that another order gives other bits.
at::Tensor values_of(std::int64_t item, std::int64_t count, at::ScalarType type) {
  at::Tensor out = at::empty({count}, type);
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = std::sin(static_cast<double>(i * 131 + item * 7919));
    out[i] = x * std::pow(10, (i + item) % 7);
  }
  return out;
}

// The sum of one step of items with these costs, as a trainer makes it, on `ranks` ranks: every rank's result.
std::vector<at::Tensor> step_sum(int ranks, const std::vector<std::int64_t>& costs, at::ScalarType type,
                                 BinSums::Order order = BinSums::Order::kTree) {
  constexpr std::int64_t kCount = 301;
  std::vector<at::Tensor> out(static_cast<std::size_t>(ranks));
  const auto body = [&](Ranks& all) {
    const BinnedWork work(costs, all.size());
    BinSums sums(at::randn({kCount}, type), order);
    const BinRange bins = bins_of(all.rank(), all.size());
    for (int bin = bins.begin; bin < bins.end; ++bin) {
      if (work.items_of(bin).empty()) continue;
      sums.begin_bin(bin);
      for (const std::int64_t item : work.items_of(bin)) sums.buffer().add_(values_of(item, kCount, type));
    }
    sums.finish(all, "gradients");
    out[static_cast<std::size_t>(all.rank())] = sums.buffer().clone();
  };
  if (ranks == 1) {
    OneRank one;
    body(one);
  } else {
    for (const std::string& error : thread_ranks::run(ranks, body)) EXPECT_EQ(error, "");
  }
  return out;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

TEST(TreeSum, OneTwoFourAndEightRanksHaveTheSameBits) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const std::size_t items : {1, 2, 5, 8, 21}) {
      std::vector<std::int64_t> costs;
      for (std::size_t i = 0; i < items; ++i) costs.push_back(static_cast<std::int64_t>(1 + (i * 37) % 11));
      const at::Tensor one = step_sum(1, costs, type)[0];
      for (const int ranks : {2, 4, 8}) {
        for (const at::Tensor& result : step_sum(ranks, costs, type)) {
          EXPECT_TRUE(same_bits(one, result)) << items << " items, " << ranks << " ranks";
        }
      }
    }
  }
}

TEST(TreeSum, PlainOrderHasOtherBitsAndTheSameSum) {
  const std::vector<std::int64_t> costs = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  const at::Tensor tree = step_sum(1, costs, at::kFloat)[0];
  const at::Tensor plain = step_sum(1, costs, at::kFloat, BinSums::Order::kPlain)[0];
  EXPECT_FALSE(same_bits(tree, plain));
  EXPECT_TRUE(tree.allclose(plain, 1e-5, 1e-2));
}

TEST(TreeSum, AnyNumberOfRanksAgreesAndAddsUp) {
  const std::vector<std::int64_t> costs = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  const at::Tensor one = step_sum(1, costs, at::kDouble)[0];
  for (const int ranks : {3, 5, 6, 7, 16}) {
    const auto results = step_sum(ranks, costs, at::kDouble);
    for (const at::Tensor& result : results) EXPECT_TRUE(same_bits(results[0], result)) << ranks;
    EXPECT_TRUE(one.allclose(results[0], 1e-12, 1e-9)) << ranks;
  }
}

TEST(TreeSum, TheTreeIsTheDocumentedOne) {
  std::vector<float> a = {1e8F}, b = {1.F}, c = {-1e8F}, d = {1.F}, e = {0.25F};
  const std::vector<float*> parts = {a.data(), b.data(), c.data(), d.data(), e.data()};
  const volatile float ab = a[0] + b[0];
  const volatile float cd = c[0] + d[0];
  const volatile float abcd = ab + cd;
  const float expected = abcd + e[0];
  std::vector<float> out(1);
  tree_add<float>(parts, out.data(), 1);
  EXPECT_EQ(out[0], expected);
}

TEST(TreeSum, NoNegativeZeros) {
  std::vector<double> a = {-0.0}, b = {-0.0};
  const std::vector<double*> parts = {a.data(), b.data()};
  tree_add<double>(parts, a.data(), 1);
  EXPECT_FALSE(std::signbit(a[0]));
  BinSums sums(at::zeros({1}));
  sums.begin_bin(3);
  sums.buffer().fill_(-0.0);
  OneRank one;
  sums.finish(one, "gradients");
  EXPECT_FALSE(std::signbit(sums.buffer().item<float>()));
}

TEST(TreeSum, AStepWithoutWorkIsZero) {
  BinSums sums(at::randn({5}));
  OneRank one;
  sums.finish(one, "gradients");
  EXPECT_EQ(sums.buffer().abs().sum().item<float>(), 0);
}

TEST(TreeSum, BuffersAsDocumented) {
  EXPECT_EQ(tree_buffers(1), 3);
  EXPECT_EQ(tree_buffers(2), 2);
  EXPECT_EQ(tree_buffers(8), 0);
  EXPECT_EQ(tree_buffers(3), 0);
}

TEST(TreeSum, BinsOutOfOrderAreABug) {
  BinSums sums(at::zeros({1}));
  sums.begin_bin(3);
  EXPECT_THROW(sums.begin_bin(2), base::InternalError);
}

}  // namespace hone::parallel::tree_sum_test
