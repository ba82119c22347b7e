// A step's datums in the bins of a run.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/tiny_model.h"
#include "parallel/bins.h"
#include "parallel/ranks.h"
#include "parallel/tree_sum.h"
#include "serve/training/datum_bins.h"

namespace hone::serve {
namespace datum_bins_test {

using namespace hone::test_tools;

Datum datum_of(std::int64_t tokens) {
  Datum out;
  out.tokens.assign(static_cast<std::size_t>(tokens), 3);
  out.targets = out.tokens;
  out.weights.assign(out.tokens.size(), 1);
  return out;
}

// Numbers of which each order of sums has other bits.
at::Tensor part_of(std::int64_t tokens) {
  return at::arange(1, 9, at::kFloat).mul_(0.1 * static_cast<double>(tokens * tokens + 1)).sin_();
}

at::Tensor sum_of(DatumBins& bins) {
  at::Tensor out = at::full({8}, 5, at::kFloat);  // contents of before are lost
  while (bins.add_next(
      out, [&](const Datum& datum, const LossSpec&) { out += part_of(std::ssize(datum.tokens)); })) {
  }
  return out;
}

const std::vector<std::int64_t> kLengths = {9, 4, 30, 4, 11, 2, 17, 8, 5, 21, 6, 3, 14};

TEST(DatumBins, AddAsARunDoes) {
  std::vector<std::int64_t> costs;
  DatumBins bins;
  for (const std::int64_t length : kLengths) {
    costs.push_back(length + 1);
    bins.add(datum_of(length), {}, 0);
  }
  const parallel::BinnedWork work(costs, 1);
  at::Tensor expected = at::empty({8}, at::kFloat);
  parallel::BinSums sums(expected);
  for (int bin = 0; bin < work.bins(); ++bin) {
    if (work.items_of(bin).empty()) continue;
    sums.begin_bin(bin);
    for (const std::int64_t item : work.items_of(bin))
      expected += part_of(kLengths[static_cast<std::size_t>(item)]);
  }
  parallel::OneRank alone;
  sums.finish(alone, "gradients");
  EXPECT_TRUE(at::equal(sum_of(bins), expected));
  EXPECT_EQ(bins.size(), 0U);
  at::Tensor by_arrival = at::zeros({8}, at::kFloat);
  for (const std::int64_t length : kLengths) by_arrival += part_of(length);
  EXPECT_FALSE(at::equal(by_arrival, expected));  // else the test shows nothing
}

TEST(DatumBins, ForgetWhatIsTakenBack) {
  DatumBins bins, other;
  for (const std::int64_t length : {5, 9, 12}) {
    bins.add(datum_of(length), {}, 0);
    other.add(datum_of(length), {}, 0);
  }
  bins.add(datum_of(40), {}, 0);
  bins.truncate(3);
  EXPECT_TRUE(at::equal(sum_of(bins), sum_of(other)));
}

TEST(DatumBins, LoseNothingByAFault) {
  DatumBins bins, other;
  std::vector<std::int64_t> lengths = kLengths;
  lengths[3] = 7;              // each length once
  std::int64_t ordinal = 100;  // datums without gradient came before
  for (const std::int64_t length : lengths) {
    bins.add(datum_of(length), {}, ordinal++);
    other.add(datum_of(length), {}, 0);
  }
  at::Tensor gradient = at::zeros({8}, at::kFloat);
  int passes = 0;
  std::int64_t failed = 0;
  const auto fails = [&](const Datum& datum, const LossSpec&) {
    if (++passes == 4) {
      failed = 100 + (std::ranges::find(lengths, std::ssize(datum.tokens)) - lengths.begin());
      throw base::UserError({.where = "loss", .expected = "a finite one", .found = "nan"});
    }
    if (passes == 8) throw std::runtime_error("planted");
    gradient += part_of(std::ssize(datum.tokens));
  };
  const auto step = [&] {
    while (bins.add_next(gradient, fails)) {
    }
  };
  EXPECT_SAYS(user_error(step), "datum " + std::to_string(failed) + " of the step, loss");
  EXPECT_EQ(passes, 4);
  EXPECT_THROW(step(), std::runtime_error);
  EXPECT_EQ(bins.size(), lengths.size());
  EXPECT_TRUE(at::equal(sum_of(bins), sum_of(other)));
  EXPECT_EQ(bins.size(), 0U);
}

TEST(DatumBins, OfAllModelsShareTheirRoom) {
  const auto room = std::make_shared<DatumRoom>(1000);
  DatumBins bins(room);
  {
    DatumBins other(room);
    other.add(datum_of(40), {}, 0);
    EXPECT_SAYS(user_error([&] { bins.add(datum_of(50), {}, 0); }), "at most 1000 bytes");
    EXPECT_EQ(bins.size(), 0U);
  }
  bins.add(datum_of(50), {}, 0);  // the other model has ended
  EXPECT_GT(room->used(), 600U);
  sum_of(bins);
  EXPECT_EQ(room->used(), 0U);
}

}  // namespace datum_bins_test
}  // namespace hone::serve
