#include "ops/dora.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ops/fused_linear.h"

namespace hone::ops {
namespace dora_test {

struct Case {
  Linear linear;
  at::Tensor x, d;
  std::vector<std::int64_t> rows, positions;
  PassContext pass;

  explicit Case(double dropout, std::int64_t tokens = 9, at::ScalarType dtype = at::kFloat) {
    at::manual_seed(3);
    x = at::randn({tokens, 24}).to(dtype);
    d = at::randn({tokens, 40}).to(dtype);
    linear = {.name = "q_proj",
              .weight = at::randn({40, 24}).to(dtype),
              .bias = at::randn({40}).to(dtype),
              .lora = LoraWeights{}};
    LoraWeights& side = *linear.lora;
    side.a = at::randn({3, 24}).set_requires_grad(true);
    side.b = at::randn({40, 3}).set_requires_grad(true);
    side.magnitude = (at::rand({40}) + 0.5).set_requires_grad(true);
    side.scale = 1.5;
    side.dropout = dropout;
    side.dropout_key = 7;
    for (at::Tensor* p : {&side.a, &side.b, &side.magnitude}) p->mutable_grad() = at::zeros_like(*p);
    rows.assign(static_cast<std::size_t>(tokens), 5);
    positions.resize(static_cast<std::size_t>(tokens));
    std::iota(positions.begin(), positions.end(), 0);
    pass = {.training = true, .seed = 1, .step = 2, .token_row = &rows, .token_position = &positions};
  }
};

void expect_near(const at::Tensor& ours, const at::Tensor& theirs, double bound = 1e-5) {
  const double worst = (ours.to(at::kFloat) - theirs.to(at::kFloat)).abs().max().item<double>();
  EXPECT_LT(worst, bound * (1 + theirs.abs().max().item<double>()));
}

// PEFT's own lines, in fp32: weight_norm detached, result + dora(x).
at::Tensor by_peft(const Case& c, const at::Tensor& x, const at::Tensor& dropped) {
  const LoraWeights& side = *c.linear.lora;
  const at::Tensor w = c.linear.weight.dense().to(at::kFloat);
  const at::Tensor norm = (w + side.scale * side.b.mm(side.a)).detach().norm(2, {1});
  const at::Tensor g = (side.magnitude / norm).view({1, -1});
  const at::Tensor base = dropped.mm(w.t());
  return x.mm(w.t()) + c.linear.bias + (g - 1) * base +
         g * dropped.mm(side.a.t()).mm(side.b.t()) * side.scale;
}

class Dora : public ::testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Dropout, Dora, ::testing::Values(0.0, 0.4));

TEST_P(Dora, AutogradAndFusedFormsGivePeftsValuesAndGradients) {
  Case c(GetParam());
  LoraWeights& side = *c.linear.lora;
  const at::Tensor mask =
      GetParam() > 0 ? dropout_mask(c.pass, side.dropout_key, side.dropout, 24) : at::ones({9, 24});
  std::vector<std::vector<at::Tensor>> found;
  std::vector<at::Tensor> outputs;
  const auto keep = [&](const at::Tensor& y, const at::Tensor& dx) {
    outputs.push_back(y.detach().clone());
    found.push_back({dx.clone()});
    for (at::Tensor* p : {&side.a, &side.b, &side.magnitude}) {
      found.back().push_back(p->grad().clone());
      p->mutable_grad().zero_();
    }
  };
  for (const bool ours : {false, true}) {
    const at::Tensor x = c.x.clone().set_requires_grad(true);
    const at::Tensor y = ours ? linear_forward(c.linear, x, c.pass) : by_peft(c, x, x * mask);
    (y * c.d).sum().backward();
    keep(y, x.grad());
  }
  {
    const at::NoGradGuard no_grad;
    const at::Tensor lora_a_out = lora_a_forward(c.linear, c.x, c.pass), y = at::empty({9, 40}),
                     dx = at::empty_like(c.x);
    linear_into(y, c.linear, c.x, lora_a_out, c.pass);
    const LinearGradient gradient{&c.linear, c.d, lora_a_out};
    linears_backward(dx, {&gradient, 1}, c.x, c.pass);
    keep(y, dx);
    const at::Tensor residual = at::randn({9, 40}), added = at::empty({9, 40});
    linear_into(added, c.linear, c.x, lora_a_out, c.pass, residual);
    expect_near(added, y + residual);
    const LinearOutput output{y, &c.linear, lora_a_out};
    y.zero_();
    linears_into({&output, 1}, c.x, c.pass);
    expect_near(y, outputs[0]);
  }
  for (const std::size_t form : {1U, 2U}) {
    expect_near(outputs[form], outputs[0]);
    for (std::size_t i = 0; i < found[0].size(); ++i) {
      EXPECT_GT(found[0][i].abs().max().item<double>(), 0);
      expect_near(found[form][i], found[0][i]);
    }
  }
}

TEST(Dora, Bfloat16IsNearFloat32) {
  const Case wide(0.0);
  const Case narrow(0.0, 9, at::kBFloat16);
  const at::NoGradGuard no_grad;
  const at::Tensor lora_a_out = lora_a_forward(narrow.linear, narrow.x, narrow.pass);
  const at::Tensor y = at::empty({9, 40}, at::kBFloat16);
  linear_into(y, narrow.linear, narrow.x, lora_a_out, narrow.pass);
  expect_near(y, linear_forward(wide.linear, wide.x, wide.pass), 0.02);
  expect_near(linear_forward(narrow.linear, narrow.x, narrow.pass),
              linear_forward(wide.linear, wide.x, wide.pass), 0.02);
}

TEST(Dora, TheNormIsMadeAgainWhenTheAdapterMoves) {
  Case c(0.0);
  const at::NoGradGuard no_grad;
  const at::Tensor before = dora_norm(c.linear, *c.linear.lora);
  EXPECT_TRUE(dora_norm(c.linear, *c.linear.lora).is_same(before));
  c.linear.lora->b.mul_(2);
  const at::Tensor after = dora_norm(c.linear, *c.linear.lora);
  EXPECT_FALSE(at::allclose(before, after));
  const LoraWeights copy = *c.linear.lora;  // as the doctor keeps and puts back
  c.linear.lora->a.mul_(0);
  expect_near(dora_norm(c.linear, *c.linear.lora), c.linear.weight.dense().norm(2, {1}));
}

TEST(Dora, OffIsTheBase) {
  Case c(0.0);
  c.pass.adapters_on = false;
  const at::NoGradGuard no_grad;
  const at::Tensor base = c.x.mm(c.linear.weight.dense().t()) + c.linear.bias;
  expect_near(linear_forward(c.linear, c.x, c.pass), base);
  const at::Tensor y = at::empty({9, 40});
  linear_into(y, c.linear, c.x, lora_a_forward(c.linear, c.x, c.pass), c.pass);
  expect_near(y, base);
}

}  // namespace dora_test
}  // namespace hone::ops
