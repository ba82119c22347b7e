#include "rollout/sampler.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

namespace hone::rollout {
namespace {

at::Tensor logits_of(const std::vector<double>& probabilities) {
  return at::tensor(probabilities, at::kDouble).log().to(at::kFloat);
}

// How often each token falls over an even grid of `n` uniforms: the sampler's distribution to within 1/n.
std::vector<double> frequencies(const at::Tensor& logits, const SamplerOptions& options, int n) {
  std::vector<double> out(static_cast<std::size_t>(logits.size(0)), 0.0);
  for (int i = 0; i < n; ++i) {
    const float uniform = (static_cast<float>(i) + 0.5F) / static_cast<float>(n);
    out[static_cast<std::size_t>(sample_token(logits, options, uniform))] += 1.0 / n;
  }
  return out;
}

TEST(Sampler, GreedyTakesTheFirstArgmax) {
  const at::Tensor logits = at::tensor({1.0F, 3.0F, 3.0F, 2.0F});
  EXPECT_EQ(sample_token(logits, {}, 0.99F), 1);
}

TEST(Sampler, TemperatureOneIsTheSoftmax) {
  const std::vector<double> p = {0.5, 0.1, 0.15, 0.25};
  const auto got = frequencies(logits_of(p), {.temperature = 1}, 2000);
  for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(got[i], p[i], 1e-3);
}

TEST(Sampler, TemperatureSharpens) {
  const auto got = frequencies(logits_of({0.8, 0.2}), {.temperature = 0.5}, 2000);
  EXPECT_NEAR(got[0], 0.64 / 0.68, 1e-3);
}

TEST(Sampler, TopKKeepsTheKBestRenormalised) {
  const auto got = frequencies(logits_of({0.5, 0.1, 0.15, 0.25}), {.temperature = 1, .top_k = 2}, 2000);
  EXPECT_NEAR(got[0], 2.0 / 3.0, 1e-3);
  EXPECT_NEAR(got[3], 1.0 / 3.0, 1e-3);
  EXPECT_EQ(got[1] + got[2], 0.0);
}

TEST(Sampler, TopPKeepsTheSmallestPrefixThatReachesItAndAtLeastOne) {
  const auto got = frequencies(logits_of({0.5, 0.1, 0.15, 0.25}), {.temperature = 1, .top_p = 0.7}, 2000);
  EXPECT_NEAR(got[0], 2.0 / 3.0, 1e-3);
  EXPECT_NEAR(got[3], 1.0 / 3.0, 1e-3);
  const auto one = frequencies(logits_of({0.5, 0.1, 0.15, 0.25}), {.temperature = 1, .top_p = 0.1}, 100);
  EXPECT_NEAR(one[0], 1.0, 1e-9);
}

}  // namespace
}  // namespace hone::rollout
