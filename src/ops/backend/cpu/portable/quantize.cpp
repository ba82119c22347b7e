// quantize() of ops/quantized.h: of matrices on the CPU, in loops that the compiler turns into vectors.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/error.h"
#include "ops/dynamic_codes.h"
#include "ops/quantized.h"

namespace hone::ops {
namespace {

using std::int64_t;

constexpr int64_t kBlock = 64, kNestedBlock = 256;
constexpr int64_t kGrain = 1024;  // blocks that one thread takes at a time
constexpr float kLeast = 1e-38F;  // bitsandbytes divides by no less

// The codes in the order of what they stand for, and the borders halfway between neighbors: a number belongs
// to the first code whose upper border is not below it.
struct Borders {
  std::array<float, 15> upper{};
  std::array<std::uint8_t, 16> order{};

  explicit Borders(QuantType type) {
    const at::Tensor table = code_table(type);
    const float* const values = table.const_data_ptr<float>();
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint8_t>(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint8_t a, std::uint8_t b) { return values[a] < values[b]; });
    for (std::size_t i = 0; i < upper.size(); ++i) {
      upper[i] = (values[order[i]] + values[order[i + 1]]) / 2.0F;
    }
  }
};

// Codes of one block of `n` numbers, one a byte; returns its scale. The last block, when it is not whole, is
// divided where the others are multiplied by the reciprocal: so does bitsandbytes.
float quantize_block(const float* x, int64_t n, bool whole, const Borders& borders, std::uint8_t* codes) {
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float size = std::fabs(x[i]);
    if (size > largest || std::isnan(size)) largest = size;  // not a number stays
  }
  if (!whole) largest = std::max(largest, kLeast);
  const float reciprocal = 1.0F / std::max(largest, kLeast);
  std::array<float, kBlock> scaled{};
  std::array<int, kBlock> place{};
  for (int64_t i = 0; i < n; ++i) {
    const float value = whole ? x[i] * reciprocal : x[i] / largest;
    scaled[static_cast<std::size_t>(i)] = std::clamp(value, -1.0F, 1.0F);
  }
  for (const float upper : borders.upper) {
    for (std::size_t i = 0; i < scaled.size(); ++i) place[i] += upper < scaled[i] ? 1 : 0;
  }
  for (int64_t i = 0; i < n; ++i) {
    codes[i] = borders.order[static_cast<std::size_t>(place[static_cast<std::size_t>(i)])];
  }
  return largest;
}

// libtorch's own sum, with its order of additions on one thread.
float mean_of(const at::Tensor& x) {
  float mean = 0;
  at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t) {
    if (begin == 0) mean = x.mean().item<float>();  // inside a parallel region libtorch takes one thread
  });
  return mean;
}

// The scales of the matrix become codes with scales of their own.
void nest(Quantized& matrix, const std::string& name) {
  const DynamicCodes& dynamic = DynamicCodes::with_sign();
  matrix.nested_offset = mean_of(matrix.scales);
  if (!std::isfinite(matrix.nested_offset)) {
    throw base::UserError({name, "weights whose scales have a mean in fp32 (use_bnb_nested_quant)",
                           "scales whose sum overflows", "the file is damaged, or its training diverged",
                           "leave use_bnb_nested_quant out, or download the model again"});
  }
  const at::Tensor centered = matrix.scales - matrix.nested_offset;
  const int64_t n = centered.numel(), blocks = (n + kNestedBlock - 1) / kNestedBlock;
  matrix.scales = at::empty({n}, at::kByte);
  matrix.nested_scales = at::empty({blocks}, at::kFloat);
  const float* x = centered.const_data_ptr<float>();
  auto* codes = matrix.scales.mutable_data_ptr<std::uint8_t>();
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = b * kNestedBlock, end = std::min(n, begin + kNestedBlock);
    const std::span<const float> block(x + begin, static_cast<std::size_t>(end - begin));
    matrix.nested_scales.mutable_data_ptr<float>()[b] = dynamic.quantize(block, codes + begin);
  }
}

[[noreturn]] void throw_not_finite(const std::string& name) {
  throw base::UserError({name, "finite numbers to quantize", "infinite or not-a-number values",
                         "the file is damaged, or its training diverged", "download the model again"});
}

bool all_finite(const at::Tensor& x) {
  return x.isfinite().all().item<bool>();
}

Quantized quantize_int8(const at::Tensor& w, const std::string& name) {
  Quantized out;
  const int64_t rows = w.size(0), step = 1 + (1 << 20) / w.size(1);
  out.scales = at::empty({rows}, at::kFloat);
  out.codes = at::empty(w.sizes(), at::kChar);
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t n = std::min(step, rows - row);
    const at::Tensor half = w.narrow(0, row, n).to(at::kHalf);
    const at::Tensor scales = half.abs().amax(1).to(at::kFloat);
    // A row of zeros has no reciprocal.
    const at::Tensor factor = at::where(scales == 0, at::zeros_like(scales), scales.reciprocal() * 127.0);
    out.codes.narrow(0, row, n).copy_(at::round(half.to(at::kFloat) * factor.unsqueeze(1)));
    out.scales.narrow(0, row, n).copy_(scales);
  }
  if (!all_finite(out.scales)) throw_not_finite(name);
  return out;
}

Quantized quantize_4bit(const at::Tensor& w, QuantType type, const std::string& name) {
  const at::Tensor flat = w.contiguous().view({-1});
  const int64_t n = flat.numel(), blocks = (n + kBlock - 1) / kBlock;
  const Borders borders(type);
  Quantized out;
  out.codes = at::empty({(n + 1) / 2}, at::kByte);
  out.scales = at::empty({blocks}, at::kFloat);
  auto* codes = out.codes.mutable_data_ptr<std::uint8_t>();
  auto* scales = out.scales.mutable_data_ptr<float>();
  // A number more, of value zero, where the last byte has room for it.
  const std::uint8_t zero = borders.order[static_cast<std::size_t>(
      std::count_if(borders.upper.begin(), borders.upper.end(), [](float upper) { return upper < 0; }))];
  at::parallel_for(0, blocks, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kGrain) {
      const int64_t last = std::min(end, first + kGrain);
      const at::Tensor numbers =
          flat.narrow(0, first * kBlock, std::min(n, last * kBlock) - first * kBlock).to(at::kFloat);
      const float* x = numbers.const_data_ptr<float>();
      for (int64_t b = first; b < last; ++b) {
        std::array<std::uint8_t, kBlock> one;
        one.fill(zero);
        const int64_t size = std::min(kBlock, n - b * kBlock);
        scales[b] = quantize_block(x + (b - first) * kBlock, size, size == kBlock, borders, one.data());
        for (int64_t i = 0; i < size; i += 2) {
          const auto pair = static_cast<std::size_t>(i);
          codes[b * kBlock / 2 + i / 2] = static_cast<std::uint8_t>(one[pair] << 4 | one[pair + 1]);
        }
      }
    }
  });
  if (!all_finite(out.scales)) throw_not_finite(name);
  return out;
}

}  // namespace

Quantized quantize(const at::Tensor& w, const QuantScheme& scheme, const std::string& name) {
  base::require(w.dim() == 2 && w.numel() > 0 && w.is_floating_point() && w.device().is_cpu(),
                "ops::quantize", "a matrix of floats on the CPU");
  const bool int8 = scheme.type == QuantType::kInt8;
  base::require(!is_ggml(scheme.type) && (!int8 || !scheme.nested), "ops::quantize",
                "a type of bitsandbytes, 8-bit scales as they are");
  Quantized out = int8 ? quantize_int8(w, name) : quantize_4bit(w, scheme.type, name);
  out.scheme = scheme;
  out.out = w.size(0);
  out.in = w.size(1);
  out.source = w.scalar_type();
  if (scheme.nested) nest(out, name);
  return complete(std::move(out));
}

}  // namespace hone::ops
