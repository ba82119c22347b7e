#include "bench/probe.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "bench/measure.h"
#include "bench/work.h"
#include "ops/gemm.h"

namespace hone::bench {

namespace {

constexpr std::int64_t kReadBytes = 640LL << 20;
constexpr std::int64_t kCopyBytes = 256LL << 20;
constexpr std::int64_t kWord = 8;

double read_rate(const Effort& effort) {
  const at::Tensor memory = at::ones({kReadBytes / kWord}, at::kLong);
  const auto* words = memory.const_data_ptr<std::int64_t>();
  std::atomic<std::int64_t> sink{0};
  const Timing timing = measure(
      [&] {
        at::parallel_for(0, memory.numel(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
          std::int64_t sums[8] = {};
          std::int64_t i = begin;
          for (; i + 8 <= end; i += 8) {
            for (std::int64_t j = 0; j < 8; ++j) sums[j] += words[i + j];
          }
          for (; i < end; ++i) sums[0] += words[i];
          std::int64_t sum = 0;
          for (const std::int64_t part : sums) sum += part;
          sink += sum;
        });
      },
      effort);
  return static_cast<double>(kReadBytes) / timing.best / 1e9;
}

double copy_rate(const Effort& effort) {
  const at::Tensor from = at::ones({kCopyBytes}, at::kByte), to = at::zeros({kCopyBytes}, at::kByte);
  const auto* source = from.const_data_ptr<std::uint8_t>();
  auto* target = to.mutable_data_ptr<std::uint8_t>();
  const Timing timing = measure(
      [&] {
        at::parallel_for(0, kCopyBytes, 1 << 20, [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
        });
      },
      effort);
  return 2 * static_cast<double>(kCopyBytes) / timing.best / 1e9;
}

GemmRate gemm_rate(const std::string& name, std::int64_t m, std::int64_t k, std::int64_t n,
                   at::ScalarType dtype, const Effort& effort) {
  const at::Tensor a = at::randn({m, k}).to(dtype), w = at::randn({n, k}).to(dtype);
  const ops::Weight weight = ops::Weight::packed_where_possible(w);
  const ops::GemmTerm term{.a = a, .weight = &weight, .side = ops::GemmDirection::kForward};
  at::Tensor out = at::empty({m, n}, a.options());
  const double flop = 2 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  const Timing ours = measure([&] { ops::gemm(out, {&term, 1}); }, effort);
  const Timing libtorch = measure([&] { at::linear(a, w); }, effort);
  return {.name = name,
          .m = m,
          .k = k,
          .n = n,
          .ours = flop / ours.best / 1e9,
          .libtorch = flop / libtorch.best / 1e9};
}

// The shapes that make up most of a training pass of 1024 tokens, and a tile of the head.
std::vector<GemmRate> gemm_rates(const model::ModelConfig& config, at::ScalarType dtype, bool quick) {
  const Effort effort =
      quick ? Effort{.seconds = 0.02, .at_least = 2} : Effort{.seconds = 0.35, .at_least = 8};
  constexpr std::int64_t kTokens = 1024, kHeadTile = 8192;
  std::vector<GemmRate> out;
  for (const Shape& shape : layer_shapes(config)) {
    const std::string name = shape.name;
    if (name != "q" && name != "gate" && name != "down") continue;
    out.push_back(gemm_rate(name, kTokens, shape.in, shape.out, dtype, effort));
  }
  out.push_back(gemm_rate("head tile", kTokens / 2, config.hidden_size,
                          std::min(kHeadTile, config.vocab_size), dtype, effort));
  return out;
}

double best_of(const std::vector<GemmRate>& rates) {
  double best = 0;
  for (const GemmRate& rate : rates) best = std::max({best, rate.ours, rate.libtorch});
  return best;
}

}  // namespace

Rates probe(const model::ModelConfig& config, bool quick, bool fp32) {
  const at::NoGradGuard no_grad;
  Rates out;
  out.bf16 = gemm_rates(config, at::kBFloat16, quick);
  out.bf16_gflops = best_of(out.bf16);
  if (fp32) {
    out.fp32 = gemm_rates(config, at::kFloat, quick);
    out.fp32_gflops = best_of(out.fp32);
  }
  const Effort effort =
      quick ? Effort{.seconds = 0.05, .at_least = 2} : Effort{.seconds = 0.8, .at_least = 10};
  out.read_gbs = read_rate(effort);
  out.copy_gbs = copy_rate(effort);
  return out;
}

Rates better_of(const Rates& a, const Rates& b) {
  Rates out = a.bf16_gflops >= b.bf16_gflops ? a : b;
  out.read_gbs = std::max(a.read_gbs, b.read_gbs);
  out.copy_gbs = std::max(a.copy_gbs, b.copy_gbs);
  out.fp32_gflops = std::max(a.fp32_gflops, b.fp32_gflops);
  return out;
}

base::Json to_json(const Rates& rates) {
  const auto list = [](const std::vector<GemmRate>& shapes) {
    base::Json out = base::Json::array();
    for (const GemmRate& r : shapes) {
      out.push_back(
          {{"name", r.name}, {"m", r.m}, {"k", r.k}, {"n", r.n}, {"ours", r.ours}, {"libtorch", r.libtorch}});
    }
    return out;
  };
  return {{"bf16_gflops", rates.bf16_gflops}, {"fp32_gflops", rates.fp32_gflops},
          {"read_gbs", rates.read_gbs},       {"copy_gbs", rates.copy_gbs},
          {"bf16", list(rates.bf16)},         {"fp32", list(rates.fp32)}};
}

std::string sentence(const Rates& rates) {
  return "probed here: bf16 GEMM " + fixed(rates.bf16_gflops, 0) + " GFLOP/s, reads " +
         fixed(rates.read_gbs, 1) + " GB/s, copies " + fixed(rates.copy_gbs, 1) + " GB/s";
}

}  // namespace hone::bench
