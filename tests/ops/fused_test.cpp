// The fused forms of the explicit layer against autograd of the plain functions in the same headers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <vector>

#include "ops/dropout.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace hone::ops {
namespace {

constexpr double kEps = 1e-5;
const std::vector<std::int64_t> kWidths = {1, 7, 16, 31, 64, 896};

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

TEST(FusedRmsNorm, EqualsThePlainFunctionAndItsGradient) {
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

TEST(FusedRope, EqualsThePlainFunctionAndItsGradientInASlice) {
  at::manual_seed(2);
  for (const std::int64_t head_dim : {2, 14, 32, 64, 128}) {
    for (const bool with_norm : {false, true}) {
      const std::int64_t T = 5, heads = 3;
      const RopeTable table =
          rope_table(rope_inverse_frequencies(1e4, head_dim), {0, 1, 2, 70, 3}, at::kFloat);
      const at::Tensor w = with_norm ? at::randn({head_dim}) : at::Tensor();
      const auto plain = [&](const at::Tensor& t) {
        return rope_apply(with_norm ? rms_norm(t, w, kEps) : t, table);
      };
      // k of a joined q|k|v buffer
      const at::Tensor joined = at::randn({T, (heads + 4) * head_dim});
      const at::Tensor before = joined.clone();
      const at::Tensor x = joined.narrow(1, 2 * head_dim, heads * head_dim).view({T, heads, head_dim});
      const at::Tensor x_before = x.clone();
      at::Tensor y = at::empty({T, heads, head_dim});
      norm_rope_into(y, x, w, kEps, table);
      EXPECT_LT(worst(y, plain(x)), 1e-6) << head_dim;
      norm_rope_into(x, x, w, kEps, table);
      EXPECT_TRUE(at::equal(x, y));
      EXPECT_TRUE(at::equal(joined.narrow(1, 0, 2 * head_dim), before.narrow(1, 0, 2 * head_dim)));
      EXPECT_TRUE(at::equal(joined.narrow(1, (heads + 2) * head_dim, 2 * head_dim),
                            before.narrow(1, (heads + 2) * head_dim, 2 * head_dim)));
      const at::Tensor dy = at::randn({T, heads, head_dim});
      x.copy_(dy);
      norm_rope_backward(x, x_before, w, kEps, table);
      EXPECT_LT(worst(x, gradient(plain, x_before, dy)), 2e-6) << head_dim << with_norm;
    }
  }
}

TEST(FusedSwiglu, EqualsThePlainFunctionAndItsGradientsInASlice) {
  at::manual_seed(3);
  for (const std::int64_t width : kWidths) {
    const at::Tensor joined = at::randn({5, 2 * width}) * 4, before = joined.clone();
    const at::Tensor gate = joined.narrow(1, 0, width), up = joined.narrow(1, width, width);
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

TEST(FusedDropout, EqualsThePlainFunctionBitForBit) {
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

}  // namespace
}  // namespace hone::ops
