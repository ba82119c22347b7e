// The fused forms of the explicit layer against autograd of the plain functions in the same headers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <limits>
#include <vector>

#include "ops/cpu/instructions.h"
#include "ops/dropout.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace hone::ops {
namespace fused_test {

constexpr double kEps = 1e-5;
const std::vector<std::int64_t> kWidths = {1, 7, 16, 31, 64, 896, 4864};

double worst(const at::Tensor& ours, const at::Tensor& theirs) {
  const at::Tensor a = ours.to(at::kDouble), b = theirs.to(at::kDouble);
  return ((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item<double>();
}

// d(sum of f(x) * d) by x.
at::Tensor gradient(const std::function<at::Tensor(const at::Tensor&)>& f, const at::Tensor& x,
                    const at::Tensor& d) {
  const at::Tensor leaf = x.detach().clone().requires_grad_();
  return torch::autograd::grad({f(leaf)}, {leaf}, {d})[0];
}

// Columns [0, width) of a wider buffer: rows are strided.
at::Tensor slice_of(const at::Tensor& x, std::int64_t begin = 3) {
  at::Tensor buffer = at::full({x.size(0), x.size(1) + 5}, 77, x.options());
  buffer.narrow(1, begin, x.size(1)).copy_(x);
  return buffer.narrow(1, begin, x.size(1));
}

TEST(FusedRmsNorm, EqualsTheReferenceAndItsGradient) {
  at::manual_seed(1);
  for (const std::int64_t width : kWidths) {
    const at::Tensor x = at::randn({5, width}), w = at::randn({width}), dy = at::randn({5, width});
    const auto plain = [&](const at::Tensor& t) { return rms_norm(t, w, kEps); };
    at::Tensor y = at::empty_like(x);
    rms_norm_into(y, x, w, kEps);
    EXPECT_LT(worst(y, plain(x)), 1e-6) << width;
    const at::Tensor residual = at::randn({5, width});
    at::Tensor dx = residual.clone();
    rms_norm_backward_add(dx, dy, x, w, kEps);
    EXPECT_LT(worst(dx, residual + gradient(plain, x, dy)), 2e-6) << width;
  }
}

TEST(FusedRope, EqualsTheReferenceAndItsGradientInASlice) {
  struct Shape {
    std::int64_t head_dim, rotated;
  };
  at::manual_seed(2);
  for (const auto& [head_dim, rotated] : {Shape{2, 2}, Shape{14, 14}, Shape{14, 6}, Shape{32, 32},
                                          Shape{32, 24}, Shape{64, 64}, Shape{128, 128}, Shape{128, 32}}) {
    for (const bool with_norm : {false, true}) {
      const std::int64_t T = 5, heads = 3;
      const RopeTable table =
          rope_table(rope_inverse_frequencies(1e4, rotated), {0, 1, 2, 70, 3}, at::kFloat, 1.25);
      const at::Tensor w = with_norm ? at::randn({head_dim}) : at::Tensor();
      const auto plain = [&](const at::Tensor& t) {
        return rope_apply(with_norm ? rms_norm(t, w, kEps) : t, table);
      };
      // k of a concatenated q|k|v buffer
      const at::Tensor concat = at::randn({T, (heads + 4) * head_dim});
      const at::Tensor before = concat.clone();
      const at::Tensor x = concat.narrow(1, 2 * head_dim, heads * head_dim).view({T, heads, head_dim});
      const at::Tensor x_before = x.clone();
      at::Tensor y = at::empty({T, heads, head_dim});
      norm_rope_into(y, x, w, kEps, table);
      EXPECT_LT(worst(y, plain(x)), 1e-6) << head_dim;
      norm_rope_into(x, x, w, kEps, table);
      EXPECT_TRUE(at::equal(x, y));
      EXPECT_TRUE(at::equal(concat.narrow(1, 0, 2 * head_dim), before.narrow(1, 0, 2 * head_dim)));
      EXPECT_TRUE(at::equal(concat.narrow(1, (heads + 2) * head_dim, 2 * head_dim),
                            before.narrow(1, (heads + 2) * head_dim, 2 * head_dim)));
      const at::Tensor dy = at::randn({T, heads, head_dim});
      x.copy_(dy);
      norm_rope_backward(x, x_before, w, kEps, table);
      EXPECT_LT(worst(x, gradient(plain, x_before, dy)), 2e-6) << head_dim << with_norm;
    }
  }
}

TEST(FusedSwiglu, EqualsTheReferenceAndItsGradientsInASlice) {
  at::manual_seed(3);
  for (const std::int64_t width : kWidths) {
    const at::Tensor concat = at::randn({5, 2 * width}) * 4, before = concat.clone();
    const at::Tensor gate = concat.narrow(1, 0, width), up = concat.narrow(1, width, width);
    const at::Tensor gate_before = gate.clone(), up_before = up.clone(), d = at::randn({5, width});
    at::Tensor y = at::empty({5, width});
    swiglu_into(y, gate, up);
    const at::Tensor exact = swiglu(gate_before.to(at::kDouble), up_before.to(at::kDouble));
    EXPECT_LT(worst(y, exact), 1e-6) << width;
    swiglu_backward(gate, up, d);
    const auto by_gate = [&](const at::Tensor& t) { return swiglu(t, up_before.to(at::kDouble)); };
    const auto by_up = [&](const at::Tensor& t) { return swiglu(gate_before.to(at::kDouble), t); };
    const at::Tensor wide_d = d.to(at::kDouble);
    EXPECT_LT(worst(gate, gradient(by_gate, gate_before.to(at::kDouble), wide_d)), 1e-6) << width;
    EXPECT_LT(worst(up, gradient(by_up, up_before.to(at::kDouble), wide_d)), 1e-6) << width;
  }
}

TEST(FusedDropout, EqualsTheReferenceBitForBit) {
  at::manual_seed(4);
  const std::vector<std::int64_t> rows = {3, 3, 900, 1LL << 40, 0}, positions = {0, 1, 0, 7, 2};
  const PassContext pass = {
      .training = true, .seed = 5, .step = 6, .token_row = &rows, .token_position = &positions};
  for (const std::int64_t width : kWidths) {
    for (const auto from : {at::kFloat, at::kBFloat16}) {
      for (const auto to : {at::kFloat, at::kBFloat16}) {
        const at::Tensor x = slice_of(at::randn({5, width}).to(from));
        at::Tensor y = slice_of(at::zeros({5, width}).to(to));
        dropout_into(y, x, pass, 11, 0.3);
        EXPECT_TRUE(at::equal(y, apply_dropout(x, pass, 11, 0.3, to)));
        const at::Tensor residual = at::randn({5, width}).to(to);
        at::Tensor dx = slice_of(residual);
        dropout_backward_add(dx, x, pass, 11, 0.3);
        EXPECT_TRUE(at::equal(dx, (residual + x * dropout_mask(pass, 11, 0.3, width)).to(to)));
      }
    }
  }
}

// ---- the instruction sets

// Runs `op` with each instruction set of this machine on copies of `buffers`; all must leave the same bits,
// which are returned. NaN equals NaN.
std::vector<at::Tensor> on_every_level(const std::vector<at::Tensor>& buffers,
                                       const std::function<void(std::vector<at::Tensor>&)>& op) {
  std::vector<at::Tensor> first;
  for (const auto level : kAllInstructions) {
    if (!machine_has(level)) continue;
    const ForceInstructions forced(level);
    std::vector<at::Tensor> now;
    for (const at::Tensor& buffer : buffers)
      now.push_back(buffer.dim() == 2 ? slice_of(buffer) : buffer.clone());
    op(now);
    if (first.empty()) first = now;
    for (std::size_t i = 0; i < now.size(); ++i) {
      EXPECT_TRUE(at::allclose(now[i], first[i], 0, 0, /*equal_nan=*/true))
          << name_of(level) << " buffer " << i << " width " << buffers[i].size(-1);
    }
  }
  return first;
}

// bf16 has 8 bits: half a unit is 2^-9 of the value, and a value next to a tie may fall on either side.
constexpr double kBf16Bound = 1.0 / 128;

TEST(FusedLevels, RmsNormGivesTheSameBitsAndEqualsTheDefinition) {
  at::manual_seed(5);
  for (const std::int64_t width : kWidths) {
    for (const auto residual : {at::kFloat, at::kBFloat16}) {
      for (const auto linear : {at::kFloat, at::kBFloat16}) {
        const at::Tensor x = at::randn({3, width}).to(residual), w = at::randn({width}).to(residual);
        const at::Tensor y = on_every_level({at::zeros({3, width}).to(linear), x},
                                            [&](auto& t) { rms_norm_into(t[0], t[1], w, kEps); })[0];
        const double bound = linear == at::kFloat && residual == at::kFloat ? 1e-6 : kBf16Bound;
        EXPECT_LT(worst(y, rms_norm(x, w, kEps)), bound) << width;
        const at::Tensor dy = at::randn({3, width}).to(linear), before = at::randn({3, width}).to(residual);
        const at::Tensor dx = on_every_level(
            {before, dy, x}, [&](auto& t) { rms_norm_backward_add(t[0], t[1], t[2], w, kEps); })[0];
        at::Tensor exact = before.to(at::kDouble);  // fp64 takes the ATen form
        rms_norm_backward_add(exact, dy.to(at::kDouble), x.to(at::kDouble), w.to(at::kDouble), kEps);
        EXPECT_LT(worst(dx, exact), residual == at::kFloat ? 2e-6 : kBf16Bound) << width;
      }
    }
  }
}

TEST(FusedLevels, NormAndRotationGiveTheSameBitsAndEqualTheDefinition) {
  at::manual_seed(6);
  for (const std::int64_t head_dim : {2, 14, 64, 128}) {
    for (const auto linear : {at::kFloat, at::kBFloat16}) {
      for (const auto wide : {at::kFloat, at::kBFloat16}) {
        for (const bool with_norm : {false, true}) {
          const RopeTable table = rope_table(rope_inverse_frequencies(1e4, head_dim), {0, 5, 999}, wide);
          const RopeTable exact_table = {table.cos.to(at::kDouble), table.sin.to(at::kDouble)};
          const at::Tensor w = with_norm ? at::randn({head_dim}).to(wide) : at::Tensor();
          const at::Tensor exact_w = with_norm ? w.to(at::kDouble) : at::Tensor();
          const at::Tensor x = at::randn({3, 2, head_dim}).to(linear),
                           d = at::randn({3, 2, head_dim}).to(linear);
          const double bound = linear == at::kFloat ? 1e-6 : 2 * kBf16Bound;
          const at::Tensor y =
              on_every_level({x}, [&](auto& t) { norm_rope_into(t[0], t[0], w, kEps, table); })[0];
          at::Tensor exact = x.to(at::kDouble);
          norm_rope_into(exact, exact, exact_w, kEps, exact_table);
          EXPECT_LT(worst(y, exact), bound) << head_dim << with_norm;
          const at::Tensor dx =
              on_every_level({d, x}, [&](auto& t) { norm_rope_backward(t[0], t[1], w, kEps, table); })[0];
          at::Tensor exact_d = d.to(at::kDouble);
          norm_rope_backward(exact_d, x.to(at::kDouble), exact_w, kEps, exact_table);
          EXPECT_LT(worst(dx, exact_d), 2 * bound) << head_dim << with_norm;
        }
      }
    }
  }
}

TEST(FusedLevels, SwigluGivesTheSameBitsAndEqualsTheDefinition) {
  at::manual_seed(7);
  for (const std::int64_t width : kWidths) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor gate = (at::randn({3, width}) * 10).to(type), up = at::randn({3, width}).to(type);
      const at::Tensor d = at::randn({3, width}).to(type);
      const at::Tensor wide_gate = gate.to(at::kDouble), wide_up = up.to(at::kDouble);
      const at::Tensor y = on_every_level({at::zeros_like(gate), gate, up},
                                          [&](auto& t) { swiglu_into(t[0], t[1], t[2]); })[0];
      const double bound = type == at::kFloat ? 1e-6 : kBf16Bound;
      EXPECT_LT(worst(y, swiglu(wide_gate, wide_up)), bound) << width;
      const auto gradients =
          on_every_level({gate, up, d}, [&](auto& t) { swiglu_backward(t[0], t[1], t[2]); });
      at::Tensor exact_gate = wide_gate.clone(), exact_up = wide_up.clone();
      swiglu_backward(exact_gate, exact_up, d.to(at::kDouble));
      EXPECT_LT(worst(gradients[0], exact_gate), bound) << width;
      EXPECT_LT(worst(gradients[1], exact_up), bound) << width;
    }
  }
}

// Element by element, not by the largest of a row: the polynomial's own error.
TEST(FusedLevels, SiluIsExactToAFewRoundingsOverItsWholeRange) {
  const at::Tensor gate = at::linspace(-87, 100, 100001, at::kFloat).unsqueeze(0);
  const at::Tensor y = on_every_level({at::zeros_like(gate), gate, at::ones_like(gate)},
                                      [&](auto& t) { swiglu_into(t[0], t[1], t[2]); })[0];
  const at::Tensor exact = at::silu(gate.to(at::kDouble));
  const at::Tensor relative = (y - exact).abs() / exact.abs().clamp_min(1e-37);
  EXPECT_LT(relative.max().item<double>(), 1e-6);
}

TEST(FusedLevels, DropoutGivesTheSameBits) {
  at::manual_seed(8);
  const std::vector<std::int64_t> rows = {3, 900, 1LL << 40}, positions = {0, 1, 7};
  const PassContext pass = {
      .training = true, .seed = 5, .step = 6, .token_row = &rows, .token_position = &positions};
  for (const std::int64_t width : kWidths) {
    const at::Tensor x = at::randn({3, width}).to(at::kBFloat16);
    const at::Tensor y = on_every_level({at::zeros({3, width}), x},
                                        [&](auto& t) { dropout_into(t[0], t[1], pass, 11, 0.1); })[0];
    EXPECT_TRUE(at::equal(y, apply_dropout(x, pass, 11, 0.1, at::kFloat)));
    on_every_level({at::randn({3, width}), x},
                   [&](auto& t) { dropout_backward_add(t[0], t[1], pass, 11, 0.1); });
  }
}

TEST(FusedLevels, NanAndInfinityPassThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    at::Tensor x = at::ones({3, 40}).to(type);
    x[0][5] = nan;
    x[1][39] = inf;
    const at::Tensor w = at::ones({40}).to(type), ones = at::ones({3, 40}).to(type);
    const at::Tensor y =
        on_every_level({at::zeros_like(x), x}, [&](auto& t) { rms_norm_into(t[0], t[1], w, kEps); })[0];
    EXPECT_TRUE(y[0].isnan().all().item<bool>());  // one sum reaches the whole row
    EXPECT_TRUE(y[1][39].isnan().item<bool>());    // inf * (1 / inf)
    EXPECT_TRUE(y[2].isfinite().all().item<bool>());
    const at::Tensor s =
        on_every_level({at::zeros_like(x), x, ones}, [&](auto& t) { swiglu_into(t[0], t[1], t[2]); })[0];
    EXPECT_TRUE(s[0][5].isnan().item<bool>());
    EXPECT_TRUE(s[1][39].isinf().item<bool>());
    EXPECT_EQ(s.isfinite().sum().item<std::int64_t>(), 118);
    const auto g = on_every_level({x, ones, ones}, [&](auto& t) { swiglu_backward(t[0], t[1], t[2]); });
    EXPECT_FALSE(g[0][0][5].isfinite().item<bool>());
    EXPECT_FALSE(g[1][1][39].isfinite().item<bool>());
    const RopeTable table = rope_table(rope_inverse_frequencies(1e4, 40), {0, 1, 2}, at::kFloat);
    const at::Tensor r = on_every_level(
        {x.view({3, 1, 40})}, [&](auto& t) { norm_rope_into(t[0], t[0], at::Tensor(), kEps, table); })[0];
    EXPECT_TRUE(r[0][0][5].isnan().item<bool>());
    EXPECT_EQ(r.isfinite().sum().item<std::int64_t>(), 116);
  }
}

TEST(FusedLevels, ARowsBitsDoNotDependOnTheOthers) {
  at::manual_seed(9);
  const at::Tensor x = at::randn({300, 896}), w = at::randn({896});
  at::Tensor all = at::empty_like(x), one = at::empty({1, 896});
  rms_norm_into(all, x, w, kEps);
  for (const std::int64_t t : {0, 149, 299}) {
    rms_norm_into(one, x.narrow(0, t, 1), w, kEps);
    EXPECT_TRUE(at::equal(one[0], all[t]));
  }
}

}  // namespace fused_test
}  // namespace hone::ops
