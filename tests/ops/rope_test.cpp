#include "ops/rope.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace hone::ops {
namespace rope_test {

TEST(Rope, FrequenciesFallFromOneByTheta) {
  const at::Tensor f = rope_inverse_frequencies(10000.0, 8);
  ASSERT_EQ(f.numel(), 4);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(f[i].item<double>(), std::pow(10000.0, -2.0 * i / 8), 1e-7);
}

TEST(Rope, RotatesHalvesByTheAngle) {
  const at::Tensor f = rope_inverse_frequencies(100.0, 4);
  const at::Tensor x = at::randn({2, 3, 4});
  const at::Tensor y = rope_apply(x, rope_table(f, {0, 5}, at::kFloat));
  EXPECT_TRUE(at::allclose(y[0], x[0]));  // position 0 turns nothing
  for (int h = 0; h < 3; ++h) {
    for (int i = 0; i < 2; ++i) {
      const double angle = 5 * f[i].item<double>();
      const double a = x[1][h][i].item<double>(), b = x[1][h][i + 2].item<double>();
      EXPECT_NEAR(y[1][h][i].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-5);
      EXPECT_NEAR(y[1][h][i + 2].item<double>(), b * std::cos(angle) + a * std::sin(angle), 1e-5);
    }
  }
}

TEST(Rope, ScoresDependOnTheDistanceOnly) {
  const at::Tensor f = rope_inverse_frequencies(10000.0, 16);
  const at::Tensor q = at::randn({1, 1, 16}), k = at::randn({1, 1, 16});
  const auto score = [&](std::int64_t i, std::int64_t j) {
    return (rope_apply(q, rope_table(f, {i}, at::kFloat)) * rope_apply(k, rope_table(f, {j}, at::kFloat)))
        .sum()
        .item<double>();
  };
  EXPECT_NEAR(score(3, 1), score(103, 101), 1e-3);
  EXPECT_GT(std::abs(score(3, 1) - score(9, 1)), 1e-4);
}

TEST(Rope, Llama3KeepsShortBlendsMiddleAndStretchesLong) {
  Llama3Scaling s;
  s.factor = 8;
  const double pi = std::acos(-1.0);
  // Wavelengths 2048 and 8192 are the borders: shorter, between, longer.
  const at::Tensor f = at::tensor({2 * pi / 100, 2 * pi / 4096, 2 * pi / 20000}, at::kDouble).to(at::kFloat);
  const at::Tensor scaled = rope_scale_llama3(f, s);
  EXPECT_NEAR((scaled[0] / f[0]).item<double>(), 1.0, 1e-6);
  const double smooth = (8192.0 / 4096 - 1) / 3;
  EXPECT_NEAR((scaled[1] / f[1]).item<double>(), (1 - smooth) / 8 + smooth, 1e-5);
  EXPECT_NEAR((scaled[2] / f[2]).item<double>(), 1.0 / 8, 1e-6);
}

TEST(Rope, LinearScalingDivides) {
  const at::Tensor f = rope_inverse_frequencies(10000.0, 8);
  EXPECT_TRUE(at::allclose(rope_scale_linear(f, 4.0) * 4, f));
}

TEST(Rope, ColumnsAfterTheRotatedStayAsTheyAre) {
  const at::Tensor x = at::randn({2, 3, 10});
  const RopeTable table = rope_table(rope_inverse_frequencies(100.0, 6), {3, 5}, at::kFloat);
  const at::Tensor y = rope_apply(x, table);
  EXPECT_TRUE(at::equal(y.narrow(2, 6, 4), x.narrow(2, 6, 4)));
  EXPECT_TRUE(at::equal(y.narrow(2, 0, 6), rope_apply(x.narrow(2, 0, 6), table)));
}

// Each frequency turns 128 theta^(-2i/8) / 2 pi times in 128 tokens: 20.4, 2.04, 0.204 and 0.0204.
TEST(Rope, YarnKeepsFastFrequenciesAndDividesSlowOnes) {
  const at::Tensor f = rope_inverse_frequencies(10000.0, 8);
  const YarnScaling scaling{
      .factor = 4, .original_max_position_embeddings = 128, .beta_fast = 20, .beta_slow = 0.3};
  const at::Tensor ratio = rope_yarn_frequencies(10000.0, 8, scaling) / f;
  // the ramp goes from column floor(0.009) = 0 to ceil(1.83) = 2
  const at::Tensor expected = at::tensor({1.0, (1.0 + 0.25) / 2, 0.25, 0.25}, at::kDouble).to(at::kFloat);
  EXPECT_TRUE(at::allclose(ratio, expected, 1e-6)) << ratio;
}

TEST(Rope, LongFactorsDivideEachFrequency) {
  const at::Tensor f = rope_inverse_frequencies(10000.0, 6);
  const at::Tensor scaled = rope_long_frequencies(10000.0, {1.0, 2.0, 8.0});
  EXPECT_TRUE(at::allclose(f / scaled, at::tensor({1.0, 2.0, 8.0}, at::kDouble).to(at::kFloat)));
}

TEST(Rope, QueriesAreScaledByTheRoundsOfTheirPosition) {
  const at::Tensor scale = query_position_scale({0, 15, 16, 47, 48}, 0.5, 16);
  for (const auto& [i, rounds] : {std::pair(0, 0), {1, 0}, {2, 1}, {3, 2}, {4, 3}})
    EXPECT_NEAR(scale[i].item<double>(), 1 + 0.5 * std::log(1.0 + rounds), 1e-6);
  const at::Tensor f = rope_inverse_frequencies(10000.0, 8);
  const RopeTable plain = rope_table(f, {0, 48}, at::kFloat, 0.5),
                  scaled = rope_table(f, {0, 48}, at::kFloat, 0.5, scale.slice(0, 0, 5, 4));
  EXPECT_TRUE(at::equal(plain.cos[0], scaled.cos[0]));
  EXPECT_TRUE(at::allclose(plain.sin[1] * scale[4], scaled.sin[1]));
}

TEST(Rope, TableTakesTheAskedType) {
  const RopeTable t = rope_table(rope_inverse_frequencies(10000.0, 8), {0, 1, 2}, at::kBFloat16);
  EXPECT_EQ(t.cos.scalar_type(), at::kBFloat16);
  EXPECT_EQ(t.sin.sizes().vec(), (std::vector<std::int64_t>{3, 8}));
}

}  // namespace rope_test
}  // namespace hone::ops
