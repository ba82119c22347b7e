// Parts that have a form of their own for devices that are not the CPU, each beside the CPU's.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adapters/lora.h"
#include "learn/adamw.h"
#include "model/files/weight_source.h"
#include "ops/attention.h"
#include "ops/head/linear_logprob.h"
#include "ops/kv_tiles.h"
#include "ops/short_conv.h"
#include "standin/guarded_memory.h"
#include "standin/standin.h"
#include "train/memory_inputs.h"

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
    EXPECT_EQ((counts() - before).to_device, 0);
    EXPECT_NEAR(norm, learn::clip_gradient(g, 1.0), 1e-10 * norm);
    EXPECT_LE(largest(g_here.cpu() - g), 1e-8);
    learn::adamw_step(cpu, g, cpu_state, {.weight_decay = 0.1}, 1e-2);
    EXPECT_LE(largest(here.cpu() - cpu), 2e-7);
  }
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
