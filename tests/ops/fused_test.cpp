// What the list of cases (ops/cases) does not ask of rows: bits of a definition, whole ranges, and numbers
// that are not finite.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

#include "base/process/instruction_level.h"
#include "ops/dropout.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace hone::ops {
namespace fused_test {

constexpr double kEps = 1e-5;
const std::vector<std::int64_t> kWidths = {1, 7, 16, 31, 64, 896, 4864};

// Columns [0, width) of a wider buffer: rows are strided.
at::Tensor slice_of(const at::Tensor& x, std::int64_t begin = 3) {
  at::Tensor buffer = at::full({x.size(0), x.size(1) + 5}, 77, x.options());
  buffer.narrow(1, begin, x.size(1)).copy_(x);
  return buffer.narrow(1, begin, x.size(1));
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
  for (const auto level : base::kInstructionLevels) {
    if (!base::machine_has(level)) continue;
    const base::ForceInstructionLevel forced(level);
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

// Element by element, not by the largest of a row: the polynomial's own error.
TEST(FusedLevels, SiluIsExactToAFewRoundingsOverItsWholeRange) {
  const at::Tensor gate = at::linspace(-87, 100, 100001, at::kFloat).unsqueeze(0);
  const at::Tensor y = on_every_level({at::zeros_like(gate), gate, at::ones_like(gate)},
                                      [&](auto& t) { swiglu_into(t[0], t[1], t[2]); })[0];
  const at::Tensor exact = at::silu(gate.to(at::kDouble));
  const at::Tensor relative = (y - exact).abs() / exact.abs().clamp_min(1e-37);
  EXPECT_LT(relative.max().item<double>(), 1e-6);
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

}  // namespace fused_test
}  // namespace hone::ops
