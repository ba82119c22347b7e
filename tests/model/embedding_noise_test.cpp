#include "model/layers/embedding_noise.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace hone::model {
namespace embedding_noise_test {

constexpr double kBound = 0.25;

struct Tokens {
  std::vector<std::int64_t> rows, positions;
  ops::PassContext pass(std::uint64_t step = 1, bool training = true) const {
    return {.training = training,
            .seed = 9,
            .step = step,
            .token_row = &rows,
            .token_position = &positions,
            .embedding_noise = kBound};
  }
};

Tokens tokens(std::int64_t count, std::int64_t row = 3) {
  Tokens out;
  for (std::int64_t i = 0; i < count; ++i) {
    out.rows.push_back(row);
    out.positions.push_back(i);
  }
  return out;
}

TEST(EmbeddingNoise, TheBoundIsNeftunes) {
  EXPECT_DOUBLE_EQ(embedding_noise_bound(5, 100, 64), 5 / std::sqrt(6400.0));
  EXPECT_EQ(embedding_noise_bound(0, 0, 64), 0);
  EXPECT_THROW(embedding_noise_bound(5, 0, 64), base::InternalError);
}

// torch's zeros_like(output).uniform_(-bound, bound): mean 0, variance bound^2 / 3, inside the bound.
TEST(EmbeddingNoise, IsUniform) {
  const Tokens some = tokens(400);
  const at::Tensor x = at::zeros({400, 50});
  const at::Tensor noise = with_embedding_noise(x, some.pass()).to(at::kDouble);
  EXPECT_GE(noise.min().item<double>(), -kBound);
  EXPECT_LT(noise.max().item<double>(), kBound);
  EXPECT_GT(noise.max().item<double>(), 0.999 * kBound);
  const double spread = kBound / std::sqrt(3.0);
  EXPECT_NEAR(noise.mean().item<double>(), 0, 4 * spread / std::sqrt(20000.0));
  EXPECT_NEAR(noise.std().item<double>(), spread, 0.02 * spread);
  // quarters of the range are equally likely
  const at::Tensor counts = at::histc(noise, 4, -kBound, kBound);
  EXPECT_LT((counts / 5000.0 - 1).abs().max().item<double>(), 0.06);
}

TEST(EmbeddingNoise, DependsOnRowPositionAndStepOnly) {
  const Tokens some = tokens(6);
  const at::Tensor x = at::randn({6, 10});
  const at::Tensor all = with_embedding_noise(x, some.pass());
  Tokens last = tokens(6);
  last.rows = {3};
  last.positions = {5};
  EXPECT_TRUE(at::equal(with_embedding_noise(x.narrow(0, 5, 1), last.pass()), all.narrow(0, 5, 1)));
  EXPECT_FALSE(at::equal(with_embedding_noise(x, some.pass(2)), all));
  EXPECT_FALSE(at::equal(with_embedding_noise(x, tokens(6, 4).pass()), all));
  EXPECT_FALSE(at::equal(all[0] - x[0], all[1] - x[1]));
}

TEST(EmbeddingNoise, NoneOutsideOfTraining) {
  const Tokens some = tokens(2);
  const at::Tensor x = at::randn({2, 8});
  EXPECT_TRUE(with_embedding_noise(x, some.pass(1, false)).is_same(x));
  ops::PassContext none = some.pass();
  none.embedding_noise = 0;
  EXPECT_TRUE(with_embedding_noise(x, none).is_same(x));
}

TEST(EmbeddingNoise, TheGradientPassesAndTheDtypeStays) {
  const Tokens some = tokens(2);
  at::Tensor x = at::randn({2, 8}).requires_grad_(true);
  with_embedding_noise(x, some.pass()).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::ones({2, 8})));
  EXPECT_EQ(with_embedding_noise(x.detach().to(at::kBFloat16), some.pass()).scalar_type(), at::kBFloat16);
}

}  // namespace embedding_noise_test
}  // namespace hone::model
