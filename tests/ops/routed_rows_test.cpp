#include "ops/routed_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace hone::ops {
namespace routed_rows_test {

// Bit for bit what libtorch's operators give, one at a time.
TEST(SumRoutedRows, IsLibtorchsInEveryDtype) {
  at::manual_seed(2);
  const at::Tensor place = at::randperm(21, at::kLong).view({7, 3});
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor rows = at::randn({21, 150}).to(dtype).slice(1, 0, 75),
                     start = at::randn({7, 75}).to(dtype);
    const at::ScalarType inside = at::promote_types(dtype, at::kFloat);
    for (const auto of_weights : {at::kFloat, at::kBFloat16}) {
      for (const at::Tensor& weights : {at::rand({7, 3}).to(of_weights), at::Tensor()}) {
        for (const bool starts : {false, true}) {
          at::Tensor expected = starts ? start.to(inside) : at::zeros({7, 75}, inside);
          for (std::int64_t s = 0; s < 3; ++s) {
            at::Tensor term = rows.index_select(0, place.select(1, s));
            if (weights.defined()) term = term * weights.select(1, s).unsqueeze(1);
            expected = expected + term.to(inside);
          }
          at::Tensor out = at::empty({7, 75}, rows.options());
          sum_routed_rows(out, rows, place, weights, starts ? start : at::Tensor());
          EXPECT_TRUE(at::equal(out, expected.to(dtype))) << starts << weights.defined();
        }
      }
    }
  }
}

// Of every dtype: those that no kernel takes too.
TEST(GatherRows, AreTheTablesRowsRoundedOnce) {
  const at::Tensor all = at::arange(60, at::kDouble).view({6, 10}).div(7);
  const at::Tensor ids = at::tensor({5, 0, 0, 3}, at::kLong);
  for (const auto of_table : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    const at::Tensor table = all.to(of_table).narrow(1, 2, 7);
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
      const at::Tensor found = gather_rows(table, ids, dtype);
      EXPECT_EQ(found.scalar_type(), dtype);
      EXPECT_TRUE(at::equal(found, at::embedding(table, ids).to(dtype)));
    }
  }
  EXPECT_THROW(gather_rows(all, ids.to(at::kInt), at::kFloat), base::InternalError);
  EXPECT_THROW(gather_rows(all.select(0, 0), ids, at::kFloat), base::InternalError);
}

TEST(WeighRows, WantsAWeightOfEachRow) {
  const at::Tensor x = at::ones({3, 5});
  EXPECT_THROW(weigh_rows_backward(at::ones({3, 4}), x, at::ones({3})), base::InternalError);
  EXPECT_THROW(weigh_rows_backward(at::ones({3, 5}), x, at::ones({5})), base::InternalError);
}

}  // namespace routed_rows_test
}  // namespace hone::ops
