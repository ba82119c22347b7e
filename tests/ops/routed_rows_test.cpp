#include "ops/routed_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "ops/cpu/instructions.h"

namespace hone::ops {
namespace routed_rows_test {

double largest(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b).abs().max().item<double>();
}

TEST(WeighRows, IsAutogradsInBothDtypesAtEveryLevel) {
  at::manual_seed(1);
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor wide = at::randn({9, 142}).to(dtype), x = wide.slice(1, 71),
                     d = at::randn({9, 71}).to(dtype);
    const at::Tensor weights = at::rand({9});
    const at::Tensor a = x.to(at::kDouble).detach().requires_grad_(true);
    const at::Tensor w = weights.to(at::kDouble).detach().requires_grad_(true);
    (a * w.unsqueeze(1) * d.to(at::kDouble)).sum().backward();
    std::optional<at::Tensor> first_d, first_sums;
    for (const Instructions level : kAllInstructions) {
      if (!machine_has(level)) continue;
      const ForceInstructions force(level);
      const at::Tensor d_x = d.clone(), sums = weigh_rows_backward(d_x, x, weights);
      EXPECT_LT(largest(sums, w.grad()), 1e-5) << name_of(level);
      EXPECT_LT(largest(d_x, a.grad()), dtype == at::kFloat ? 1e-6 : 1.6e-2) << name_of(level);
      if (!first_d) first_d = d_x, first_sums = sums;
      EXPECT_TRUE(at::equal(d_x, *first_d) && at::equal(sums, *first_sums)) << name_of(level);
    }
  }
  // fp64: libtorch's
  const at::Tensor x = at::randn({3, 5}, at::kDouble), d = at::randn({3, 5}, at::kDouble), d_x = d.clone();
  const at::Tensor w = at::rand({3});
  EXPECT_LT(largest(weigh_rows_backward(d_x, x, w), (d * x).sum(1)), 1e-6);
  EXPECT_TRUE(at::equal(d_x, d * w.unsqueeze(1)));
}

// Bit for bit what libtorch's operators give, one at a time.
TEST(SumRoutedRows, IsLibtorchsInEveryDtypeAtEveryLevel) {
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
          for (const Instructions level : kAllInstructions) {
            if (!machine_has(level)) continue;
            const ForceInstructions force(level);
            at::Tensor out = at::empty({7, 75}, rows.options());
            sum_routed_rows(out, rows, place, weights, starts ? start : at::Tensor());
            EXPECT_TRUE(at::equal(out, expected.to(dtype))) << name_of(level) << starts << weights.defined();
          }
        }
      }
    }
  }
}

TEST(WeighRows, WantsAWeightOfEachRow) {
  const at::Tensor x = at::ones({3, 5});
  EXPECT_THROW(weigh_rows_backward(at::ones({3, 4}), x, at::ones({3})), base::InternalError);
  EXPECT_THROW(weigh_rows_backward(at::ones({3, 5}), x, at::ones({5})), base::InternalError);
}

}  // namespace routed_rows_test
}  // namespace hone::ops
