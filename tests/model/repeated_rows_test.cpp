#include "model/layers/repeated_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace hone::model {
namespace repeated_rows_test {

TEST(RepeatedRows, HandsOutAndAddsUp) {
  const at::Tensor rows = at::tensor({4, 1, 4, 0, 4, 1}, at::kLong);
  const RepeatedRows repeated(rows, 5);
  EXPECT_EQ(repeated.count(), 6);
  EXPECT_TRUE(at::equal(repeated.different(), at::tensor({4, 1, 0}, at::kLong)));
  const at::Tensor all = at::randn({5, 3});
  EXPECT_TRUE(
      at::equal(repeated.spread(all.index_select(0, repeated.different())), all.index_select(0, rows)));
  const at::Tensor d = at::randn({6, 3}).to(at::kBFloat16);
  const at::Tensor sum = repeated.gather(d);
  EXPECT_EQ(sum.scalar_type(), at::kFloat);
  const at::Tensor wide = d.to(at::kFloat);
  EXPECT_TRUE(at::equal(sum[0], wide[0] + wide[2] + wide[4]));
  EXPECT_TRUE(at::equal(sum[1], wide[1] + wide[5]));
  EXPECT_TRUE(at::equal(sum[2], wide[3]));
}

TEST(RepeatedRows, LeavesDifferentRowsAsTheyAre) {
  const at::Tensor rows = at::tensor({2, 0, 3}, at::kLong), d = at::randn({3, 2});
  const RepeatedRows repeated(rows, 4);
  EXPECT_TRUE(repeated.different().is_same(rows));
  EXPECT_TRUE(repeated.spread(d).is_same(d));
  EXPECT_TRUE(repeated.gather(d).is_same(d));
  EXPECT_EQ(RepeatedRows(at::empty({0}, at::kLong), 4).count(), 0);
}

TEST(RepeatedRows, RefusesRowsThatAreNotThere) {
  EXPECT_THROW(RepeatedRows(at::tensor({0, 4}, at::kLong), 4), base::InternalError);
  EXPECT_THROW(RepeatedRows(at::tensor({-1}, at::kLong), 4), base::InternalError);
  EXPECT_THROW(RepeatedRows(at::tensor({0, 1}, at::kInt), 4), base::InternalError);
}

}  // namespace repeated_rows_test
}  // namespace hone::model
