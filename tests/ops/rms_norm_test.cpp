#include "ops/rms_norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ops/swiglu.h"

namespace hone::ops {
namespace rms_norm_test {

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  const at::Tensor x = at::tensor({3.0F, -4.0F}).view({1, 2});
  const at::Tensor y = rms_norm(x, at::tensor({1.0F, 2.0F}), 0.5);
  const double scale = 1 / std::sqrt(12.5 + 0.5);
  EXPECT_NEAR(y[0][0].item<double>(), 3 * scale, 1e-6);
  EXPECT_NEAR(y[0][1].item<double>(), -8 * scale, 1e-6);
}

TEST(RmsNorm, RoundsBeforeTheWeightAsTransformersDoes) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({4, 64}).to(at::kBFloat16);
  const at::Tensor w = at::randn({64});
  const at::Tensor x32 = x.to(at::kFloat);
  const at::Tensor inner = (x32 * at::rsqrt(x32.pow(2).mean(-1, true) + 1e-6)).to(at::kBFloat16);
  EXPECT_TRUE(at::equal(rms_norm(x, w, 1e-6), inner * w));  // fp32 weight: fp32 result
  EXPECT_EQ(rms_norm(x, w.to(at::kBFloat16), 1e-6).scalar_type(), at::kBFloat16);
}

TEST(Swiglu, IsSiluOfTheGateTimesUp) {
  const at::Tensor gate = at::randn({3, 5}), up = at::randn({3, 5});
  EXPECT_TRUE(at::allclose(swiglu(gate, up), gate / (1 + (-gate).exp()) * up, 1e-5, 1e-6));
}

}  // namespace rms_norm_test
}  // namespace hone::ops
