#include "ops/linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "ops/dropout.h"

namespace hone::ops {
namespace linear_test {

struct Case {
  Linear linear;
  at::Tensor x;
};

Case make_case(at::ScalarType dtype, std::int64_t tokens = 5, std::int64_t in = 12, std::int64_t out = 7) {
  at::manual_seed(3);
  Case c;
  c.linear.name = "q_proj";
  c.linear.weight = at::randn({out, in}).to(dtype);
  c.linear.bias = at::randn({out}).to(dtype);
  LoraWeights side;
  side.a = at::randn({3, in}).set_requires_grad(true);
  side.b = at::randn({out, 3}).set_requires_grad(true);
  side.scale = 1.5;
  side.dropout_key = 4;
  c.linear.lora = side;
  c.x = at::randn({tokens, in}).set_requires_grad(true);
  return c;
}

TEST(LinearForward, GivesTheFormulaAndItsGradients) {
  const Case c = make_case(at::kFloat);
  const at::Tensor w = c.linear.weight.dense();
  const auto& [bias, lora] = std::tie(c.linear.bias, *c.linear.lora);
  const at::Tensor y = linear_forward(c.linear, c.x, {});
  const at::Tensor expected = c.x.matmul(w.t()) + bias + 1.5 * c.x.matmul(lora.a.t()).matmul(lora.b.t());
  EXPECT_TRUE(at::allclose(y, expected, 1e-5, 1e-5));
  const at::Tensor g = at::randn({5, 7});
  y.backward(g);
  // dB = s g^T (x A^T), dA = s (g B)^T x, dx = g W + s g B A
  EXPECT_TRUE(at::allclose(lora.b.grad(), 1.5 * g.t().matmul(c.x.matmul(lora.a.t())), 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose(lora.a.grad(), 1.5 * g.matmul(lora.b).t().matmul(c.x), 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose(c.x.grad(), g.matmul(w) + 1.5 * g.matmul(lora.b).matmul(lora.a), 1e-4, 1e-4));
  EXPECT_FALSE(w.grad().defined());
}

TEST(LinearForward, AddsTheFrozenSideWhichStaysOn) {
  Case c = make_case(at::kFloat);
  const at::Tensor a = at::randn({4, 12}), b = at::randn({7, 4});
  const at::Tensor g = at::randn({5, 7});
  const auto gradient = [&](const PassContext& pass) {
    c.x.mutable_grad() = at::Tensor();
    linear_forward(c.linear, c.x, pass).backward(g);
    return c.x.grad().clone();
  };
  for (const bool on : {true, false}) {
    PassContext pass;
    pass.adapters_on = on;
    c.linear.frozen_lora.reset();
    const at::Tensor without = linear_forward(c.linear, c.x, pass).detach(), d_without = gradient(pass);
    c.linear.frozen_lora = FrozenLora{.a = a, .b = b};
    EXPECT_TRUE(at::allclose(linear_forward(c.linear, c.x, pass), without + c.x.matmul(a.t()).matmul(b.t()),
                             1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(gradient(pass), d_without + g.matmul(b).matmul(a), 1e-4, 1e-4));
  }
}

TEST(LinearForward, AgreesWithFiniteDifferencesInDouble) {
  Case c = make_case(at::kDouble, 3, 4, 2);
  c.linear.lora->a = at::randn({3, 4}, at::kDouble).set_requires_grad(true);
  c.linear.lora->b = at::randn({2, 3}, at::kDouble).set_requires_grad(true);
  const at::Tensor x = at::randn({3, 4}, at::kDouble);
  const auto loss = [&] { return linear_forward(c.linear, x, {}).pow(2).sum(); };
  loss().backward();
  for (const at::Tensor& p : {c.linear.lora->a, c.linear.lora->b}) {
    const at::NoGradGuard no_grad;
    double* values = p.data_ptr<double>();
    for (std::int64_t i = 0; i < p.numel(); ++i) {
      const double kept = values[i], h = 1e-5;
      values[i] = kept + h;
      const double above = loss().item<double>();
      values[i] = kept - h;
      const double below = loss().item<double>();
      values[i] = kept;
      EXPECT_NEAR(p.grad().data_ptr<double>()[i], (above - below) / (2 * h), 1e-5 * (1 + std::abs(above)));
    }
  }
}

TEST(LoraWeights, GivesOperandsThatFollowTheMasters) {
  Case c = make_case(at::kBFloat16);
  LoraWeights& side = *c.linear.lora;
  const auto held = [&] {
    const Weight& a = side.a_operand(at::kBFloat16);
    return a.memory()[0].second;
  };
  const at::Tensor first = held();
  EXPECT_TRUE(at::equal(side.a_operand(at::kBFloat16).dense(), side.a.detach().to(at::kBFloat16)));
  EXPECT_TRUE(held().is_same(first)) << "made again without a change";
  const at::NoGradGuard no_grad;
  side.a.mul_(2);
  EXPECT_TRUE(at::equal(side.a_operand(at::kBFloat16).dense(), side.a.to(at::kBFloat16)));
  EXPECT_EQ(side.b_operand(at::kFloat).dense().const_data_ptr(), side.b.const_data_ptr())
      << "fp32 is the master";
}

TEST(LinearForward, LeavesTheAdapterOutWhenItIsOff) {
  const Case c = make_case(at::kFloat);
  PassContext off;
  off.adapters_on = false;
  const at::Tensor plain = at::linear(c.x, c.linear.weight.dense(), c.linear.bias);
  EXPECT_TRUE(at::equal(linear_forward(c.linear, c.x, off), plain));
  EXPECT_FALSE(at::equal(linear_forward(c.linear, c.x, {}), plain));
}

TEST(LinearForward, MultipliesInTheWeightsTypeAndKeepsFloatMasters) {
  const Case c = make_case(at::kBFloat16);
  const at::Tensor y = linear_forward(c.linear, c.x, {});
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  y.sum().backward();
  EXPECT_EQ(c.linear.lora->a.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(c.x.grad().scalar_type(), at::kFloat);
  const Case same = make_case(at::kFloat);
  const at::Tensor exact = linear_forward(same.linear, same.x, {});
  EXPECT_LT((y.to(at::kFloat) - exact).abs().max().item<double>(), 0.02 * exact.abs().max().item<double>());
}

struct Tokens {
  std::vector<std::int64_t> rows, positions;
  PassContext pass(std::uint64_t seed = 7, std::uint64_t step = 2) const {
    PassContext p;
    p.training = true;
    p.seed = seed;
    p.step = step;
    p.token_row = &rows;
    p.token_position = &positions;
    return p;
  }
};

TEST(DropoutMask, IsAFunctionOfRowAndPositionOnly) {
  const Tokens packed{{10, 10, 10, 3, 3}, {0, 1, 2, 0, 1}};
  const Tokens alone{{3, 3}, {0, 1}};
  const at::Tensor whole = dropout_mask(packed.pass(), 9, 0.3, 50);
  const at::Tensor part = dropout_mask(alone.pass(), 9, 0.3, 50);
  EXPECT_TRUE(at::equal(whole.narrow(0, 3, 2), part));
  EXPECT_FALSE(at::equal(whole.narrow(0, 0, 2), part));
}

TEST(DropoutMask, DoesNotDependOnThreads) {
  Tokens tokens;
  for (std::int64_t t = 0; t < 300; ++t) {
    tokens.rows.push_back(t / 50);
    tokens.positions.push_back(t % 50);
  }
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = dropout_mask(tokens.pass(), 1, 0.5, 33);
  at::set_num_threads(4);
  const at::Tensor four = dropout_mask(tokens.pass(), 1, 0.5, 33);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one, four));
}

TEST(DropoutMask, ChangesWithSeedStepAndModule) {
  const Tokens tokens{{1, 1, 1}, {0, 1, 2}};
  const at::Tensor base = dropout_mask(tokens.pass(), 1, 0.5, 64);
  EXPECT_TRUE(at::equal(base, dropout_mask(tokens.pass(), 1, 0.5, 64)));
  EXPECT_FALSE(at::equal(base, dropout_mask(tokens.pass(8), 1, 0.5, 64)));
  EXPECT_FALSE(at::equal(base, dropout_mask(tokens.pass(7, 3), 1, 0.5, 64)));
  EXPECT_FALSE(at::equal(base, dropout_mask(tokens.pass(), 2, 0.5, 64)));
}

TEST(DropoutMask, DropsTheAskedShareAndKeepsTheMean) {
  Tokens tokens;
  for (std::int64_t t = 0; t < 1000; ++t) {
    tokens.rows.push_back(t);
    tokens.positions.push_back(0);
  }
  const at::Tensor mask = dropout_mask(tokens.pass(), 1, 0.25, 101);
  EXPECT_NEAR((mask == 0).to(at::kFloat).mean().item<double>(), 0.25, 0.005);
  EXPECT_NEAR(mask.mean().item<double>(), 1.0, 0.01);
  EXPECT_NEAR(mask.max().item<double>(), 1 / 0.75, 1e-6);
}

TEST(Dropout, MultipliesByTheMaskForwardAndBackward) {
  const Tokens tokens{{4, 4, 5}, {0, 1, 0}};
  const PassContext pass = tokens.pass();
  const at::Tensor x = at::randn({3, 10}).set_requires_grad(true);
  const at::Tensor mask = dropout_mask(pass, 6, 0.4, 10);
  const at::Tensor y = apply_dropout(x, pass, 6, 0.4, at::kFloat);
  EXPECT_TRUE(at::equal(y, x * mask));
  const at::Tensor g = at::randn({3, 10});
  y.backward(g);
  EXPECT_TRUE(at::equal(x.grad(), g * mask));
}

TEST(Dropout, IsOffOutsideTraining) {
  Case c = make_case(at::kFloat);
  const at::Tensor before = linear_forward(c.linear, c.x, {});
  c.linear.lora->dropout = 0.5;
  EXPECT_TRUE(at::equal(linear_forward(c.linear, c.x, {}), before));
  const Tokens tokens{{0, 0, 0, 0, 0}, {0, 1, 2, 3, 4}};
  EXPECT_FALSE(at::equal(linear_forward(c.linear, c.x, tokens.pass()), before));
}

TEST(Dropout, NeedsToKnowTheTokens) {
  Case c = make_case(at::kFloat);
  c.linear.lora->dropout = 0.5;
  PassContext pass;
  pass.training = true;
  EXPECT_THROW(linear_forward(c.linear, c.x, pass), base::InternalError);
}

}  // namespace linear_test
}  // namespace hone::ops
