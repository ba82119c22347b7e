// Parts that have a form of their own for devices that are not the CPU, each beside the CPU's.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adapters/lora.h"
#include "learn/adamw.h"
#include "learn/optimizer.h"
#include "learn/optimizers/blockwise.h"
#include "model/files/weight_source.h"
#include "ops/attention.h"
#include "ops/dynamic_codes.h"
#include "ops/head/linear_logprob.h"
#include "ops/kv_tiles.h"
#include "ops/short_conv.h"
#include "standin/guarded_memory.h"
#include "standin/standin.h"
#include "train/opening/memory_inputs.h"

namespace hone::standin {
namespace parts_test {

at::Tensor numbers(at::IntArrayRef shape, double salt) {
  const at::Tensor count = at::arange(c10::multiply_integers(shape), at::kDouble);
  return at::sin(count * 0.37 + salt).to(at::kFloat).view(shape);
}

double largest(const at::Tensor& x) {
  return x.abs().max().item<double>();
}

// In pieces that begin and end anywhere in a tile and, in bf16, in a pair of tokens; then cut and filled
// again. What is held is seen by a query, because each device has an order of its own.
TEST(Parts, TilesOfKeysHoldTheSame) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    ops::KvTiles cpu(2, 6, dtype, 5), here(2, 6, dtype, 5, device());
    const at::Tensor q = numbers({1, 4, 6}, 7).to(dtype);
    const auto seen = [&](const ops::KvTiles& tiles, at::Device on) {
      const at::Tensor out = at::empty({1, 24}, q.options()).to(on), lse = at::empty({1, 4}).to(on);
      ops::attend_tiles(out, lse, q.to(on), {{0, 1, {}, &tiles, tiles.length() - 1}});
      return at::cat({out.to(at::kFloat), lse}, 1).cpu();
    };
    const auto compare = [&] {
      EXPECT_EQ(here.length(), cpu.length());
      EXPECT_LT(largest(seen(here, device()) - seen(cpu, at::kCPU)), dtype == at::kFloat ? 1e-5 : 2e-2)
          << cpu.length();
    };
    const auto append = [&](std::int64_t n) {
      const at::Tensor k = numbers({n, 2, 6}, static_cast<double>(n)).to(dtype), v = (k * 2 + 1).to(dtype);
      cpu.append(k, v);
      here.append(k.to(device()), v.to(device()));
      compare();
    };
    for (const std::int64_t n : {1, 1, 3, 2, 70, 1, 64}) append(n);
    for (const std::int64_t length : {131, 70, 64, 9}) {
      cpu.truncate(length);
      here.truncate(length);
      compare();
    }
    append(5);
  }
}

TEST(Parts, ShortConvolutionsAreTheSame) {
  const std::vector<ops::AttentionSegment> segments = {{0, 5}, {5, 7, 0}, {7, 12, 0}, {12, 13}};
  const at::Tensor weight = numbers({6, 1, 4}, 1), bias = numbers({6}, 2), d = numbers({13, 6}, 3);
  const auto run = [&](at::Device on) {
    const at::Tensor bcx = numbers({13, 18}, 4).to(on), w = weight.to(on), b = bias.to(on);
    const at::Tensor inputs = ops::conv_inputs(bcx), out = at::empty_like(inputs);
    ops::short_conv_into(out, inputs, bcx, w, b, ops::conv_rows(inputs, segments, 4));
    ops::ConvInputs held(6, 4, at::kFloat, on);
    for (std::int64_t t = 0; t < 13; ++t) held.append(inputs.narrow(0, t, 1));
    const at::Tensor dw = at::zeros_like(w), db = at::zeros_like(b);
    ops::short_conv_backward(bcx, d.clone().to(on), w, b, segments, dw, db);
    return std::vector<at::Tensor>{out.cpu(), held.last(3).cpu(), bcx.cpu(), dw.cpu(), db.cpu()};
  };
  const std::vector<at::Tensor> cpu = run(at::kCPU), here = run(device());
  for (std::size_t i = 0; i < cpu.size(); ++i) EXPECT_LT(largest(here[i] - cpu[i]), 1e-5) << i;
}

TEST(Parts, AdamWAndClippingAreTheSame) {
  const at::Tensor gradient = numbers({5000}, 1);
  at::Tensor cpu = numbers({5000}, 2), here = cpu.to(device());
  learn::AdamWState cpu_state = learn::AdamWState::zeros_like(cpu);
  learn::AdamWState state = learn::AdamWState::zeros_like(here);
  EXPECT_EQ(state.m.device(), device());
  for (int step = 0; step < 3; ++step) {
    at::Tensor g = gradient * (step + 1), g_here = g.to(device());
    const Counts before = counts();
    const double norm = learn::clip_gradient(g_here, 1.0);
    learn::adamw_step(here, g_here, state, {.weight_decay = 0.1}, 1e-2);
    EXPECT_EQ((counts() - before).synchronizations(), 1) << "the norm";
    EXPECT_EQ((counts() - before).staged, 0);
    EXPECT_NEAR(norm, learn::clip_gradient(g, 1.0), 1e-10 * norm);
    EXPECT_LE(largest(g_here.cpu() - g), 1e-8);
    learn::adamw_step(cpu, g, cpu_state, {.weight_decay = 0.1}, 1e-2);
    EXPECT_LE(largest(here.cpu() - cpu), 2e-7);
  }
}

// Tensors of 8-bit states with whole blocks and without, small ones, an embedding, and those that do not decay.
learn::FlatLayout some_layout() {
  learn::FlatLayout out = learn::flat_layout({{"a.weight", {64, 64}},
                                              {"b.weight", {20, 256}},
                                              {"b.bias", {300}},
                                              {"c.weight", {5000}},
                                              {"d.weight", {70, 61}},
                                              {"model.embed_tokens.weight", {90, 64}},
                                              {"input_layernorm.weight", {64}}});
  for (std::size_t i = 0; i < out.size(); ++i) out[i].part = i < 3 ? 0 : 1;
  return out;
}

class OptimizerOf : public testing::TestWithParam<std::pair<std::string, learn::OptimizerOptions>> {};

// With the same gradients the states have the same codes, bit for bit.
TEST_P(OptimizerOf, StepsAreTheSameAndWaitForNothing) {
  const learn::OptimizerOptions& options = GetParam().second;
  const learn::FlatLayout layout = some_layout();
  const std::int64_t size = layout.back().offset + layout.back().size, second = layout[3].offset;
  learn::Optimizer cpu(options, layout, at::kCPU), here(options, layout, device()),
      parts(options, layout, device());
  const at::Tensor p = numbers({size}, 2), p_here = p.to(device()), p_parts = p.to(device());
  for (int step = 0; step < 3; ++step) {
    const at::Tensor g = numbers({size}, step) * 0.1, g_here = g.to(device());
    EXPECT_LE(largest(here.reference(1, p_here, g_here, 1e-2).cpu() - cpu.reference(1, p, g, 1e-2)), 2e-7);
    cpu.step(p, g, 1e-2);
    const Counts before = counts();
    here.step(p_here, g_here, 1e-2);
    EXPECT_EQ((counts() - before).synchronizations(), 0);
    parts.begin_step();
    parts.step_part(p_parts, second, g_here.narrow(0, second, size - second), 1e-2);
    parts.step_part(p_parts, 0, g_here.narrow(0, 0, second), 1e-2);
    EXPECT_LE(largest(p_here.cpu() - p), 2e-7) << "step " << step;
    EXPECT_TRUE(at::equal(p_parts.cpu(), p_here.cpu()));
  }
  ASSERT_EQ(here.state().size(), cpu.state().size());
  for (std::size_t k = 0; k < cpu.state().size(); ++k) {
    const at::Tensor &a = cpu.state()[k].value, b = here.state()[k].value.cpu();
    if (a.scalar_type() == at::kByte) {
      EXPECT_TRUE(at::equal(b, a)) << cpu.state()[k].name;
    } else {
      EXPECT_LE(largest(b - a), 2e-7) << cpu.state()[k].name;
    }
    EXPECT_TRUE(at::equal(parts.state()[k].value.cpu(), b)) << cpu.state()[k].name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Parts, OptimizerOf,
    testing::ValuesIn(std::vector<std::pair<std::string, learn::OptimizerOptions>>{
        {"adamw", {.kind = learn::OptimizerKind::kAdamW, .epsilon = 1e-2, .weight_decay = 0.1}},
        {"adamw_8bit", {.kind = learn::OptimizerKind::kAdamW8bit, .epsilon = 1e-2, .weight_decay = 0.1}},
        {"adafactor", {.kind = learn::OptimizerKind::kAdafactor, .weight_decay = 0.1}},
        {"rmsprop", {.kind = learn::OptimizerKind::kRmsprop, .arguments = {.eps = 1e-2}}},
        {"rmsprop_centered",
         {.kind = learn::OptimizerKind::kRmsprop,
          .weight_decay = 0.1,
          .arguments = {.momentum = 0.9, .centered = true, .eps = 1e-2}}},
        {"sgd", {.kind = learn::OptimizerKind::kSgd, .weight_decay = 0.1}},
        {"sgd_nesterov",
         {.kind = learn::OptimizerKind::kSgd, .arguments = {.momentum = 0.9, .nesterov = true}}},
        {"adagrad", {.kind = learn::OptimizerKind::kAdagrad, .arguments = {.lr_decay = 0.1, .eps = 1e-2}}},
        {"lion", {.kind = learn::OptimizerKind::kLion, .weight_decay = 0.1}},
        {"lion_8bit", {.kind = learn::OptimizerKind::kLion8bit, .weight_decay = 0.1}}}),
    [](const auto& one) { return one.param.first; });

// What has no scale, is at a border between two codes, or is no number.
TEST(Parts, CodesOfEightBitsAreTheSame) {
  at::Tensor x = numbers({256 * 9 + 40}, 3);
  x.narrow(0, 256, 256).zero_();
  x.narrow(0, 512, 256).mul_(1e-39);
  x.narrow(0, 768, 256).copy_(at::arange(256, at::kFloat).sub_(128).div_(128));
  x.narrow(0, 1024, 256).mul_(1e30);
  x.narrow(0, 1280, 256).copy_(at::logspace(-8, 0, 256, 10, at::kFloat));
  const std::int64_t blocks = learn::state_blocks(x.numel());
  for (const auto* map : {&ops::DynamicCodes::with_sign(), &ops::DynamicCodes::without_sign()}) {
    const at::Tensor codes = at::zeros({x.numel()}, at::kByte), scales = at::zeros({blocks}, at::kFloat);
    const at::Tensor codes_here = codes.to(device()), scales_here = scales.to(device());
    ops::to_codes(*map, x, codes, scales);
    ops::to_codes(*map, x.to(device()), codes_here, scales_here);
    EXPECT_TRUE(at::equal(codes_here.cpu(), codes));
    EXPECT_TRUE(at::equal(scales_here.cpu(), scales));
    EXPECT_TRUE(at::equal(ops::from_codes(*map, codes_here, scales_here, codes_here.to(at::kFloat)).cpu(),
                          ops::from_codes(*map, codes, scales, x)));
  }
}

TEST(Parts, ANormInPartsHasTheBitsOfTheWhole) {
  const at::Tensor gradient = numbers({100'000}, 5).to(device());
  at::Tensor whole = gradient.clone();
  const double expected = learn::clip_gradient(whole, 0);
  learn::GradientNorm norm(gradient.numel(), device());
  const Counts before = counts();
  for (const auto& [begin, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {40'000, 100'000}, {0, 20'000}, {20'000, 20'003}, {20'003, 40'000}})
    norm.add(begin, gradient.narrow(0, begin, end - begin));
  EXPECT_EQ((counts() - before).synchronizations(), 0);
  EXPECT_TRUE(norm.is_finite());
  EXPECT_EQ(norm.value(), expected);
}

TEST(Parts, AnAdapterIsOnItsModelsDevice) {
  const base::fs::path folder = base::fs::path(HONE_FIXTURES) / "parity" / "tiny_llama";
  const auto source = model::open_weights(folder);
  model::CausalLm cpu_model(*source, {}), model(*source, {}, model::Storage::kPlain, {}, device());
  const adapters::LoraConfig config{.target_modules = {"all-linear"}, .target_is_regex = true};
  const adapters::Adapter cpu = adapters::Adapter::attach(cpu_model, config, 3);
  const adapters::Adapter here = adapters::Adapter::attach(model, config, 3);
  EXPECT_EQ(here.flat().device(), device());
  EXPECT_TRUE(at::equal(here.flat().cpu(), cpu.flat()));
  const adapters::Adapter loaded = adapters::Adapter::load(model, folder / "adapter");
  EXPECT_TRUE(at::equal(loaded.flat().cpu(), adapters::Adapter::load(cpu_model, folder / "adapter").flat()));
}

TEST(Parts, TheMeanRowOfAHead) {
  const at::Tensor w = numbers({3000, 16}, 3);
  EXPECT_LE(largest(ops::mean_row(w.to(device())).cpu() - ops::mean_row(w)), 1e-7);
}

// What a plan counts with is the device's: its free memory, and the form of attention that runs there.
TEST(Parts, MemoryFactsOfAPlan) {
  config::Plan plan;
  plan.device = kName;
  EXPECT_EQ(train::memory_limit(plan).bytes, static_cast<std::int64_t>(kTotalBytes));
  ops::AttentionSizes sizes{.tokens = 512, .longest = 512, .heads = 4, .kv_heads = 2, .head_dim = 64};
  const std::int64_t fp32 = ops::packed_attention_backward_bytes(sizes);  // the plain form, on both
  sizes.dtype = at::kBFloat16;
  sizes.device = device();
  EXPECT_EQ(ops::packed_attention_backward_bytes(sizes), fp32);
}

}  // namespace parts_test
}  // namespace hone::standin
