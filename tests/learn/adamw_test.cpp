#include "learn/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"
#include "learn/golden.h"

namespace hone::learn {
namespace adamw_test {

// Ten steps against torch.optim.AdamW. Bound: a few roundings of fp32, since torch's kernels may fuse a
// multiply and an add; a wrong order of decay and update, or a wrong bias correction, is off by 1e-3 and
// more.
TEST(AdamW, EqualsTorchForTenSteps) {
  ASSERT_EQ(test::golden()["adamw"].size(), 4U);
  for (const auto& recorded : test::golden()["adamw"]) {
    at::Tensor p = test::tensor_of(recorded["start"]);
    AdamWState state = AdamWState::zeros_like(p);
    const AdamWOptions options{recorded["beta1"], 0.999, 1e-8, recorded["weight_decay"]};
    for (std::size_t step = 0; step < 10; ++step) {
      adamw_step(p, test::tensor_of(recorded["gradients"][step]), state, options, recorded["rates"][step]);
      EXPECT_LT(test::worst_relative(p, test::tensor_of(recorded["after"][step]), 1e-2), 1e-6)
          << "step " << step;
    }
    EXPECT_EQ(state.step, 10);
    EXPECT_LT(test::worst_relative(state.m, test::tensor_of(recorded["m"])), 2e-6);
    EXPECT_LT(test::worst_relative(state.v, test::tensor_of(recorded["v"])), 2e-6);
  }
}

TEST(AdamW, EqualsLibtorchsFusedKernelOnALargeBuffer) {
  at::manual_seed(1);
  const at::Tensor start = at::randn({100003});
  at::Tensor ours = start.clone();
  at::Tensor theirs = start.clone();
  AdamWState state = AdamWState::zeros_like(ours);
  at::Tensor m = at::zeros_like(theirs);
  at::Tensor v = at::zeros_like(theirs);
  at::Tensor step = at::zeros({}, at::kFloat);
  for (int i = 0; i < 10; ++i) {
    const at::Tensor gradient = at::randn({100003});
    adamw_step(ours, gradient, state, {0.9, 0.999, 1e-8, 0.1}, 1e-3);
    step += 1;
    at::_fused_adamw_({theirs}, {gradient}, {m}, {v}, {}, {step}, 1e-3, 0.9, 0.999, 0.1, 1e-8, false, false);
  }
  EXPECT_LT(test::worst_relative(ours, theirs, 1e-2), 2e-6);
}

// Parts of odd sizes, in an order that is not theirs; blocks of which three parts have elements.
TEST(GradientNorm, PartsHaveTheBitsOfTheWhole) {
  at::manual_seed(4);
  for (const std::int64_t size : {1, 100, 16384, 40000, 131072, 200001}) {
    const at::Tensor gradient = at::randn({size});
    std::vector<std::int64_t> borders = {0, 1, 7, 5000, 16384, 16390, 16391, 60000, 131072, 131073, 199999};
    std::erase_if(borders, [size](std::int64_t at) { return at >= size; });
    borders.push_back(size);
    GradientNorm norm(size, at::kCPU);
    const auto add = [&](std::size_t i) {
      norm.add(borders[i], gradient.narrow(0, borders[i], borders[i + 1] - borders[i]));
      EXPECT_TRUE(norm.is_finite());
    };
    for (std::size_t i = 1; i + 1 < borders.size(); i += 2) add(i);
    for (std::size_t i = borders.size() - 1; i-- > 0;) {
      if (i % 2 == 0) add(i);
    }
    at::Tensor clipped = gradient.clone();
    const double expected = clip_gradient(clipped, 0.5);
    EXPECT_EQ(norm.value(), expected) << size;
    const std::optional<float> factor = clip_factor(expected, 0.5);
    EXPECT_EQ(factor.has_value(), expected > 0.5) << size;
    if (!factor) continue;
    const at::Tensor scaled = gradient.clone();
    scale_gradient(scaled, *factor);
    EXPECT_TRUE(scaled.equal(clipped)) << size;
  }
}

TEST(GradientNorm, SeesWhatIsNotFinite) {
  at::Tensor gradient = at::ones({40000});
  gradient[20000] = std::numeric_limits<float>::infinity();
  GradientNorm norm(40000, at::kCPU);
  norm.add(0, gradient.narrow(0, 0, 16384));
  EXPECT_TRUE(norm.is_finite());
  norm.add(16384, gradient.narrow(0, 16384, 1000));
  EXPECT_TRUE(norm.is_finite()) << "a part of a block";
  norm.add(17384, gradient.narrow(0, 17384, 40000 - 17384));
  EXPECT_FALSE(norm.is_finite());
  EXPECT_FALSE(std::isfinite(norm.value()));
}

TEST(AdamW, BitsDoNotDependOnThreads) {
  at::manual_seed(2);
  const at::Tensor start = at::randn({200001});
  const at::Tensor gradient = at::randn({200001});
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> results;
  std::vector<double> norms;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    at::Tensor p = start.clone();
    at::Tensor g = gradient.clone();
    AdamWState state = AdamWState::zeros_like(p);
    norms.push_back(clip_gradient(g, 1.0));
    adamw_step(p, g, state, {0.9, 0.999, 1e-8, 0.01}, 1e-3);
    results.push_back(p);
  }
  at::set_num_threads(threads);
  EXPECT_EQ(norms[0], norms[1]);
  EXPECT_EQ(norms[0], norms[2]);
  EXPECT_TRUE(at::equal(results[0], results[1]));
  EXPECT_TRUE(at::equal(results[0], results[2]));
}

TEST(AdamW, RefusesTensorsOfAnotherSize) {
  at::Tensor p = at::zeros({4});
  AdamWState state = AdamWState::zeros_like(p);
  EXPECT_THROW(adamw_step(p, at::zeros({5}), state, {}, 1e-3), base::InternalError);
  EXPECT_THROW(adamw_step(p, at::zeros({4}, at::kDouble), state, {}, 1e-3), base::InternalError);
  EXPECT_EQ(state.step, 0);
}

TEST(Clip, EqualsTorch) {
  ASSERT_EQ(test::golden()["clip"].size(), 3U);
  for (const auto& recorded : test::golden()["clip"]) {
    at::Tensor gradient = test::tensor_of(recorded["before"]);
    const double norm = clip_gradient(gradient, recorded["max_norm"]);
    EXPECT_NEAR(norm, recorded["norm"].get<double>(), 1e-6 * norm);
    EXPECT_LT(test::worst_relative(gradient, test::tensor_of(recorded["after"])), 5e-7);
  }
}

TEST(Clip, EveryElementCountsOnce) {
  for (const std::int64_t size : {1, 15, 16, 17, 31, 16384, 16399, 40000}) {
    at::Tensor gradient = at::randn({size});
    const double exact = gradient.to(at::kDouble).norm().item<double>();
    EXPECT_NEAR(clip_gradient(gradient, 0), exact, 1e-13 * exact) << size;
  }
}

TEST(Clip, ZeroOnlyMeasures) {
  at::Tensor gradient = at::full({3}, 4.0, at::kFloat);
  EXPECT_DOUBLE_EQ(clip_gradient(gradient, 0), std::sqrt(48.0));
  EXPECT_TRUE(at::equal(gradient, at::full({3}, 4.0, at::kFloat)));
}

TEST(Clip, ANormBelowTheLimitLeavesTheBits) {
  at::Tensor gradient = at::full({3}, 0.1, at::kFloat);
  const at::Tensor before = gradient.clone();
  clip_gradient(gradient, 1.0);
  EXPECT_TRUE(at::equal(gradient, before));
}

TEST(Clip, NanIsReportedNotSpread) {
  at::Tensor gradient = at::ones({3}, at::kFloat);
  gradient[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(clip_gradient(gradient, 1.0)));
  EXPECT_EQ(gradient[0].item<float>(), 1.0F);  // which element was bad can still be told
}

}  // namespace adamw_test
}  // namespace hone::learn
