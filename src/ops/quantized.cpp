#include "ops/quantized.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "base/error.h"
#include "ops/dynamic_codes.h"
#include "ops/ggml_panels.h"
#include "ops/quantized_panels.h"

namespace hone::ops {
namespace {

using std::int64_t;

constexpr int64_t kBlock = 64, kNestedBlock = 256;
constexpr int64_t kGrain = 1024;  // blocks that one thread takes at a time
constexpr float kLeast = 1e-38F;  // bitsandbytes divides by no less

// QLoRA (Dettmers et al. 2023), appendix E: quantiles of the normal distribution.
constexpr std::array<float, 16> kNf4 = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

// A sign, two bits of exponent, one of mantissa, divided by the largest, 12.
constexpr std::array<float, 16> kFp4 = {
    0.0F / 12,  0.0625F / 12,  8.0F / 12,  12.0F / 12,  4.0F / 12,  6.0F / 12,  2.0F / 12,  3.0F / 12,
    -0.0F / 12, -0.0625F / 12, -8.0F / 12, -12.0F / 12, -4.0F / 12, -6.0F / 12, -2.0F / 12, -3.0F / 12,
};

const std::array<float, 16>& values_of(QuantType type) {
  return type == QuantType::kNf4 ? kNf4 : kFp4;
}

template <std::size_t N>
at::Tensor tensor_of(const std::array<float, N>& values) {
  at::Tensor out = at::empty({static_cast<int64_t>(N)}, at::kFloat);
  std::copy(values.begin(), values.end(), out.mutable_data_ptr<float>());
  return out;
}

// The codes in the order of what they stand for, and the borders halfway between neighbors: a number belongs
// to the first code whose upper border is not below it.
struct Borders {
  std::array<float, 15> upper{};
  std::array<std::uint8_t, 16> order{};

  explicit Borders(QuantType type) {
    const std::array<float, 16>& values = values_of(type);
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

std::string describe(const QuantScheme& scheme) {
  switch (scheme.type) {
    case QuantType::kInt8:
      return "8-bit";
    case QuantType::kQ4_0:
      return "GGUF Q4_0";
    case QuantType::kQ5_0:
      return "GGUF Q5_0";
    case QuantType::kQ8_0:
      return "GGUF Q8_0";
    case QuantType::kQ4_K:
      return "GGUF Q4_K";
    case QuantType::kQ5_K:
      return "GGUF Q5_K";
    case QuantType::kQ6_K:
      return "GGUF Q6_K";
    case QuantType::kNf4:
    case QuantType::kFp4:
      break;
  }
  return std::string(scheme.type == QuantType::kNf4 ? "4-bit nf4" : "4-bit fp4") +
         (scheme.nested ? ", double quantized" : "");
}

at::Tensor code_table(QuantType type) {
  base::require(type == QuantType::kNf4 || type == QuantType::kFp4, "ops::code_table", "a 4-bit type");
  return tensor_of(values_of(type));
}

at::Tensor dynamic_table() {
  return tensor_of(DynamicCodes::with_sign().values());
}

Quantized Quantized::to(at::Device device) const {
  Quantized moved = device.is_cpu() ? *this : in_rows(*this);
  for (at::Tensor* part : {&moved.codes, &moved.scales, &moved.table, &moved.nested_scales,
                           &moved.nested_table, &moved.row_scales}) {
    if (part->defined()) *part = part->to(device);
  }
  return moved;
}

int64_t Quantized::bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor* part : {&codes, &scales, &nested_scales, &row_scales}) {
    if (part->defined()) bytes += static_cast<int64_t>(part->nbytes());
  }
  return bytes;
}

int64_t quantized_bytes(int64_t out, int64_t in, const QuantScheme& scheme) {
  const int64_t n = out * in, blocks = (n + kBlock - 1) / kBlock;
  if (is_ggml(scheme.type)) return kept_ggml_bytes(out, in, scheme);
  if (scheme.type == QuantType::kInt8) return n + 2 * 4 * out;
  const int64_t codes = (n + 1) / 2;
  return codes + (scheme.nested ? blocks + (blocks + kNestedBlock - 1) / kNestedBlock * 4 : blocks * 4);
}

kernels::QuantizedView Quantized::view() const {
  kernels::QuantizedView seen;
  seen.codes = static_cast<const std::uint8_t*>(codes.const_data_ptr());
  seen.block = block;
  seen.in = in;
  if (scheme.type == QuantType::kInt8) {
    seen.scales = row_scales.const_data_ptr<float>();
    return seen;
  }
  seen.table = table.const_data_ptr<float>();
  if (scheme.nested) {
    seen.scale_codes = scales.const_data_ptr<std::uint8_t>();
    seen.scale_table = nested_table.const_data_ptr<float>();
    seen.scale_scales = nested_scales.const_data_ptr<float>();
    seen.scale_offset = nested_offset;
    seen.scale_block = nested_block;
  } else {
    seen.scales = scales.const_data_ptr<float>();
  }
  return seen;
}

Quantized complete(Quantized parts) {
  constexpr const char* kWhere = "ops::complete";
  const int64_t n = parts.out * parts.in;
  const bool int8 = parts.scheme.type == QuantType::kInt8;
  base::require(n > 0 && parts.block > 0 && parts.nested_block > 0, kWhere, "a matrix with numbers");
  base::require(parts.codes.defined() && parts.codes.is_contiguous() &&
                    parts.codes.numel() == (int8 ? n : (n + 1) / 2) &&
                    parts.codes.scalar_type() == (int8 ? at::kChar : at::kByte),
                kWhere, "one code a number");
  const int64_t blocks = int8 ? parts.out : (n + parts.block - 1) / parts.block;
  base::require(parts.scales.defined() && parts.scales.is_contiguous() && parts.scales.numel() == blocks &&
                    parts.scales.scalar_type() == (parts.scheme.nested ? at::kByte : at::kFloat),
                kWhere, "one scale a block");
  if (int8) {
    parts.block = parts.in;
    parts.codes = parts.codes.view({parts.out, parts.in});
    parts.row_scales = parts.scales * (1.0 / 127.0);
    return parts;
  }
  if (!parts.table.defined()) parts.table = code_table(parts.scheme.type);
  base::require(parts.table.numel() == 16, kWhere, "a table of 16 values");
  if (parts.scheme.nested) {
    if (!parts.nested_table.defined()) parts.nested_table = dynamic_table();
    base::require(parts.nested_table.numel() == 256 &&
                      parts.nested_scales.numel() == (blocks + parts.nested_block - 1) / parts.nested_block,
                  kWhere, "one nested scale a block of scales");
  }
  return parts;
}

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

at::Tensor dequantize(const Quantized& matrix, at::ScalarType dtype) {
  if (matrix.in_panels) {
    const bool direct = dtype == at::kFloat || dtype == at::kBFloat16;
    return dequantize_panels(matrix, direct ? dtype : at::kFloat).to(dtype);
  }
  const int64_t n = matrix.out * matrix.in;
  const bool here = matrix.codes.device().is_cpu();
  if (here && (dtype == at::kFloat || dtype == at::kBFloat16)) {
    at::Tensor out = at::empty({matrix.out, matrix.in}, dtype);
    const kernels::QuantizedView view = matrix.view();
    void* to = out.mutable_data_ptr();
    at::parallel_for(0, (n + matrix.block - 1) / matrix.block, 1 + (1 << 15) / matrix.block,
                     [&](int64_t begin, int64_t end) {
                       const int64_t first = begin * matrix.block,
                                     count = std::min(n, end * matrix.block) - first;
                       if (dtype == at::kFloat) {
                         kernels::dequantize_run(view, first, count, static_cast<float*>(to) + first);
                       } else {
                         kernels::dequantize_run(view, first, count, static_cast<kernels::Bf16*>(to) + first);
                       }
                     });
    return out;
  }
  // The same in ATen, for other devices and for float16.
  if (matrix.scheme.type == QuantType::kInt8) {
    return (matrix.codes.to(at::kFloat) * matrix.row_scales.unsqueeze(1)).to(dtype);
  }
  const at::Tensor codes = at::stack({matrix.codes.bitwise_right_shift(4), matrix.codes.bitwise_and(15)}, 1)
                               .view({-1})
                               .narrow(0, 0, n);
  const at::Tensor of_number =
      at::arange(n, matrix.codes.options().dtype(at::kLong)).floor_divide(matrix.block);
  at::Tensor scales = matrix.scales;
  if (matrix.scheme.nested) {
    const at::Tensor of_scale =
        at::arange(scales.numel(), of_number.options()).floor_divide(matrix.nested_block);
    scales = matrix.nested_table.index_select(0, scales.to(at::kLong)) *
                 matrix.nested_scales.index_select(0, of_scale) +
             matrix.nested_offset;
  }
  const at::Tensor values =
      matrix.table.index_select(0, codes.to(at::kLong)) * scales.index_select(0, of_number);
  return values.to(dtype).view({matrix.out, matrix.in});
}

}  // namespace hone::ops
